/**
 * The layers of an intermediate representation (versions 2 to 11) in an order in which each comes after its inputs. A
 * layer of version 10 and later has its weights from Const layers, an older one as blobs of its own.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { pmml } from '../../source/advice/converters.ts';
import { childOf, childrenOf, type Element } from './xml.ts';

export interface Port {
  readonly id: string;
  /** -1 is a free size. */
  readonly dims: readonly number[];
  /** The names of the tensor, since version 11. */
  readonly names: readonly string[];
  readonly precision: string;
}

export interface Place {
  readonly offset: number;
  readonly bytes: number;
}

export interface Layer {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  /** `opset1`; empty before version 10. */
  readonly opset: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  /** For each input the port it comes from, as `layer:port`; undefined when no edge leads to it. */
  readonly sources: readonly (string | undefined)[];
  /** Old versions: `weights`, `biases` and others by name. */
  readonly blobs: ReadonlyMap<string, Place>;
  readonly precision: string;
  /** With the bodies of a loop or condition. */
  readonly element: Element;
}

export interface Net {
  readonly version: number;
  /** Each after those that its inputs come from. */
  readonly layers: readonly Layer[];
  /** In the order of the file, which is that of its inputs and outputs. */
  readonly declared: readonly Layer[];
  /** The ports from which another layer takes its input. */
  readonly used: ReadonlySet<string>;
}

const MAX_LAYERS = 100_000;
const MAX_RANK = 32;

/** @throws bad_model when the XML is no network of a known version */
export function readNet(root: Element, file: string): Net {
  if (root.name !== 'net')
    throw badModel(
      root.name === 'PMML'
        ? pmml(file)
        : `${file}: is no OpenVINO model: expected <net>, found <${root.name}>${root.name === 'opencv_storage' ? '; serve it as a worker with OpenCV (docs/how-to/serve-your-own-code.md)' : ''}`,
    );
  const version = whole(root.attributes.get('version') ?? '', `${file}: version of the net`);
  if (version < 2 || version > 11)
    throw badModel(`${file}: is of IR version ${version}; 2 to 11 are read, convert it with ovc or mo`);
  return layersOf(root, version, file);
}

/** The layers of a net, or of the body of a loop. */
export function layersOf(element: Element, version: number, file: string): Net {
  const elements = childrenOf(childOf(element, 'layers'), 'layer');
  if (elements.length > MAX_LAYERS)
    throw badModel(`${file}: has ${elements.length} layers, the limit is ${MAX_LAYERS}`);
  const from = new Map<string, string>();
  for (const { attributes: at } of childrenOf(childOf(element, 'edges'), 'edge')) {
    const to = `${at.get('to-layer')}:${at.get('to-port')}`;
    if (from.has(to)) throw badModel(`${file}: two edges lead to ${to}`);
    from.set(to, `${at.get('from-layer')}:${at.get('from-port')}`);
  }
  const layers = elements.map((each) => layerOf(each, from, file));
  return { version, layers: ordered(layers, file), declared: layers, used: new Set(from.values()) };
}

function layerOf(element: Element, from: ReadonlyMap<string, string>, file: string): Layer {
  const at = (name: string) => element.attributes.get(name) ?? '';
  const what = `${file}: layer "${at('name').slice(0, 200)}"`;
  if (!element.attributes.has('id') || at('type') === '') throw badModel(`${what} has no id or no type`);
  const inputs = childrenOf(childOf(element, 'input'), 'port').map((port) => portOf(port, what));
  const outputs = childrenOf(childOf(element, 'output'), 'port').map((port) => portOf(port, what));
  // Version 2 calls it convolution_data, fc_data and so on.
  const data = element.children.filter(({ name }) => name === 'data' || name.endsWith('_data'));
  const blobs = childOf(element, 'blobs')?.children ?? childrenOf(element, 'weights');
  const biases = childOf(element, 'blobs') ? [] : childrenOf(element, 'biases');
  return {
    id: at('id'),
    name: at('name'),
    type: at('type'),
    opset: at('version'),
    attributes: new Map(data.flatMap(({ attributes }) => [...attributes])),
    inputs,
    outputs,
    sources: inputs.map(({ id }) => from.get(`${at('id')}:${id}`)),
    blobs: new Map([...blobs, ...biases].map((blob) => [blob.name, placeOf(blob.attributes, what)])),
    precision: at('precision'),
    element,
  };
}

function portOf(element: Element, what: string): Port {
  const dims = childrenOf(element, 'dim');
  if (dims.length > MAX_RANK)
    throw badModel(`${what} has ${dims.length} dimensions, the limit is ${MAX_RANK}`);
  return {
    id: element.attributes.get('id') ?? '',
    dims: dims.map(({ text }) => whole(text.trim(), `${what}: a size`)),
    names: namesOf(element.attributes.get('names') ?? ''),
    precision: element.attributes.get('precision') ?? '',
  };
}

/** A comma in a name is written as `\,`. */
function namesOf(text: string): string[] {
  if (text === '') return [];
  return text.split(/(?<!\\),/).map((name) => name.replaceAll('\\,', ','));
}

export function placeOf(at: ReadonlyMap<string, string>, what: string): Place {
  const number = (name: string) => whole(at.get(name) ?? '', `${what}: ${name} of a blob`);
  const place = { offset: number('offset'), bytes: number('size') };
  if (place.offset < 0 || place.bytes < 0) throw badModel(`${what}: a blob lies at ${place.offset}`);
  return place;
}

export function whole(text: string, what: string): number {
  const number = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number)) return number;
  throw badModel(`${what} must be a whole number, got "${text.slice(0, 100)}"`);
}

/** Each layer after those that its inputs come from, and constants right before their use: not all are in memory then. */
function ordered(layers: readonly Layer[], file: string): Layer[] {
  const byId = new Map(layers.map((layer) => [layer.id, layer]));
  if (byId.size !== layers.length) throw badModel(`${file}: two layers have the same id`);
  const sourcesOf = ({ name, sources }: Layer) =>
    sources.flatMap(producer).map((id) => {
      const source = byId.get(id);
      if (source) return source;
      throw badModel(`${file}: layer "${name}" takes from layer ${id}, which is not there`);
    });
  const done = new Set<Layer>();
  const begun = new Set<Layer>();
  const stack = [...layers]
    .reverse()
    .toSorted((a, b) => Number(b.type === 'Const') - Number(a.type === 'Const'));
  for (let layer = stack.at(-1); layer; layer = stack.at(-1)) {
    const open = done.has(layer) ? [] : sourcesOf(layer).filter((source) => !done.has(source));
    if (open.some((source) => begun.has(source)))
      throw badModel(`${file}: its layers take from each other in a circle`);
    if (open.length === 0) {
      done.add(layer);
      stack.pop();
    } else {
      begun.add(layer);
      stack.push(...open.reverse());
    }
  }
  return [...done];
}

function producer(source: string | undefined): string[] {
  return source === undefined ? [] : [source.slice(0, source.lastIndexOf(':'))];
}
