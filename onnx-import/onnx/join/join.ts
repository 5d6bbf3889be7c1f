/**
 * Makes one ONNX model of two files of which the first gives what the second takes, such as preprocessor.onnx and
 * model.onnx. The values and nodes of the first get a prefix, so that no name of one file means something in the other.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel } from '../../../lib/contract/errors.ts';
import { readMessage } from '../../wire/binary.ts';
import { bytes, type Chunk, integer, message, text } from '../../wire/chunk.ts';
import { messageOf, messagesOf, numberOf, textOf } from '../../wire/message.ts';
import type { Message, Table } from '../../wire/table.ts';
import { readOnnx, readOnnxFacts } from '../facts.ts';
import { LABEL_KEYS } from '../labels.ts';
import { asIs, fieldsOf, type RawField } from '../rewrite/fields.ts';
import { joinedNames } from './names.ts';
import { type Pair, type Part, type Ports, pairsOf, portsOf } from './ports.ts';
import { Renamer, textIn } from './renamer.ts';

export interface Joined {
  readonly model: Chunk;
  readonly notes: readonly string[];
}

/** Where a protobuf ends. */
const MAX_BYTES = 2 ** 31 - 1;
/** Initializers are inputs, too, before this version of the format. */
const IR_WITH_CONSTANTS = 4;
const KEY: Table = { 1: { name: 'key', type: 'string' } };

/** @throws bad_model when the files do not fit, listing what one gives and the other takes */
export async function joinOnnx(folder: string, before: string, file: string): Promise<Joined> {
  const [first, second] = [await partOf(folder, before), await partOf(folder, file)];
  const pairs = pairsOf(first.ports, second.ports);
  assertOpsets(first, second);
  const length = (await stat(join(folder, before))).size + (await stat(join(folder, file))).size;
  if (length > MAX_BYTES) throw badModel(`${before} and ${file} are over 2 GB, which no ONNX file can be`);
  const names = joinedNames(first, second, pairs);
  const [ours, theirs] = [new Renamer(names.first), new Renamer(names.second)];
  const added = [...first.opsets].filter(([domain]) => !second.opsets.has(domain));
  const model = message([
    integer(1, Math.max(first.irVersion, second.irVersion)),
    bytes(7, graphOf(first, second, pairs, [ours, theirs])),
    ...second.fields.flatMap((item) => keptField(item, theirs)),
    ...added.map(([domain, version]) => bytes(8, message([text(1, domain), integer(2, version)]))),
    ...functionsOf(first.fields, ours),
  ]);
  return { model, notes: notesOf(first.ports, second.ports, pairs) };
}

/** Whether the first file gives what the second takes. */
export function fitsBefore(folder: string, before: string, file: string): boolean {
  try {
    const [first, second] = [before, file].map((name) =>
      portsOf(name, graphIn(readOnnx(join(folder, name)))),
    );
    return first !== undefined && second !== undefined && pairsOf(first, second).length > 0;
  } catch {
    // What is wrong with a file is reported once it is chosen.
    return false;
  }
}

async function partOf(folder: string, file: string): Promise<Part> {
  const path = join(folder, file);
  const { externalFiles, irVersion } = await readOnnxFacts(path);
  if (externalFiles.length > 0)
    throw badModel(
      `${file}: its weights lie in ${externalFiles[0]}, and a file that is joined has them itself; in Python: onnx.save(onnx.load("${file}"), "copy.onnx") puts them into the file`,
    );
  const read = readOnnx(path);
  const fields = fieldsOf(await readFile(path));
  const graph = fields.find(({ number }) => number === 7);
  const opsets = messagesOf(read, 'opsets').map(
    (opset) => [domainOf(textOf(opset, 'domain')), numberOf(opset, 'version')] as const,
  );
  return {
    ports: portsOf(file, graphIn(read)),
    irVersion,
    opsets: new Map(opsets),
    fields,
    graph: graph ? fieldsOf(graph.content) : [],
  };
}

function graphIn(model: Message): Message {
  return messageOf(model, 'graph') ?? {};
}

function domainOf(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

function assertOpsets(first: Part, second: Part): void {
  for (const [domain, version] of first.opsets) {
    const other = second.opsets.get(domain);
    if (other === undefined || other === version) continue;
    const [a, b] = [first.ports.file, second.ports.file];
    const advice =
      domain === ''
        ? `; in Python: onnx.save(onnx.version_converter.convert_version(onnx.load("${a}"), ${other}), "${a}")`
        : '';
    throw badModel(
      `${a} has operators of ${domain || 'ONNX'} in version ${version}, and ${b} in version ${other}; one file has one version, so export both with the same${advice}`,
    );
  }
}

/** What the second file says beside its graph. Metadata about its inputs is no longer true. */
function keptField(item: RawField, renamer: Renamer): readonly Chunk[] {
  const { number, content } = item;
  if (number === 25) return [bytes(25, renamer.function(content))];
  const isLabels = number === 14 && LABEL_KEYS.includes(textOf(readMessage(content, KEY), 'key'));
  return [1, 7, 14, 20].includes(number) && !isLabels ? [] : [asIs(item.raw)];
}

function functionsOf(fields: readonly RawField[], renamer: Renamer): readonly Chunk[] {
  return fields.flatMap(({ number, content }) =>
    number === 25 ? [bytes(25, renamer.function(content))] : [],
  );
}

function graphOf(
  first: Part,
  second: Part,
  pairs: readonly Pair[],
  [ours, theirs]: readonly [Renamer, Renamer],
): Chunk {
  const wired = new Set(pairs.map(([, input]) => input.name));
  const irVersion = Math.max(first.irVersion, second.irVersion);
  const isKept = (part: Part, { number, content }: RawField) => {
    const name = number === 11 || number === 13 ? nameIn(content) : '';
    const isConstant = part.irVersion < IR_WITH_CONSTANTS && irVersion >= IR_WITH_CONSTANTS;
    if (number === 11 && isConstant && part.ports.defaults.has(name)) return false;
    return part === first ? ![2, 10, 12, 16].includes(number) : !wired.has(name);
  };
  const fieldsFrom = (part: Part, renamer: Renamer) =>
    part.graph
      .filter((item) => isKept(part, item))
      .flatMap((item) => {
        if (item.number === 12)
          return [
            bytes(
              12,
              renamer.port(item.content, (name) => name),
            ),
          ];
        return renamer.graphField(item) ?? [asIs(item.raw)];
      });
  // An output of the second that is what it was given.
  const passed = second.ports.outputs.filter(({ name }) => wired.has(name));
  return message([
    ...fieldsFrom(first, ours),
    ...fieldsFrom(second, theirs),
    ...passed.map(({ name }) => bytes(1, identity(theirs.names.value(name), name))),
  ]);
}

function identity(input: string, output: string): Chunk {
  return message([text(1, input), text(2, output), text(4, 'Identity')]);
}

function nameIn(content: Uint8Array): string {
  const name = fieldsOf(content).find(({ number }) => number === 1);
  return name ? textIn(name) : '';
}

function notesOf(first: Ports, second: Ports, pairs: readonly Pair[]): string[] {
  const joined = pairs.map(([output, input]) => `its output "${output.name}" is input "${input.name}"`);
  const left = first.outputs.filter((port) => pairs.every(([output]) => output !== port));
  const names = left.map(({ name }) => `"${name}"`).join(', ');
  return [
    `${first.file} was joined in front of ${second.file}: ${joined.join(', ')}`,
    ...(left.length > 0 ? [`${first.file}: nothing reads ${names}, which the joined model leaves out`] : []),
  ];
}
