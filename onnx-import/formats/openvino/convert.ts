/**
 * Converts an OpenVINO model (.xml and .bin) to an ONNX graph. Most files have a static batch, so the graph is built
 * with a free batch first; the import keeps that one if it is proven that its rows do not depend on each other.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount } from '../../../lib/contract/tensor.ts';
import { BATCH, commonBatch, withFreeBatch } from '../../graph/batch.ts';
import { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import type { Body, Shape, Value } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { Conversion, ImageProposal } from '../conversion.ts';
import { Problems } from '../problems.ts';
import { type IrFiles, readFiles } from './files.ts';
import { inputsOf, outputsOf, type PublicInput, type PublicOutput } from './interface.ts';
import { type Net, readNet } from './net.ts';
import type { NetState } from './node.ts';
import { convertLayers } from './walk.ts';
import { readXml } from './xml.ts';

interface Job {
  readonly net: Net;
  readonly files: IrFiles;
  readonly options: ConvertOptions;
  readonly inputs: readonly PublicInput[];
  readonly outputs: readonly PublicOutput[];
}

/** @throws bad_model naming every layer that cannot be converted */
export async function convertOpenvino(
  directory: string,
  names: readonly string[],
  options: ConvertOptions,
): Promise<Conversion> {
  const files = await readFiles(directory, names);
  return convertIr(files, options);
}

export function convertIr(files: IrFiles, options: ConvertOptions): Conversion {
  const { name } = files.xml;
  const net = readNet(readXml(files.xml.text, name), name);
  const inputs = inputsOf(net, name, options);
  const job: Job = { net, files, options, inputs, outputs: outputsOf(net, name, options) };
  const batch = commonBatch(inputs.map(({ shape }) => shape));
  const isNumber = typeof batch === 'number' && batch > 0;
  const free = isNumber ? withFreeBatch(() => build(job, batch), isBadModel) : undefined;
  if (!free) return build(job, undefined);
  const otherwise = () => {
    const made = build(job, undefined);
    const note = `the batch stays ${batch}, as in the file: it is not shown that its records are independent of each other`;
    return { ...made, notes: [...made.notes, note] };
  };
  // Made only when it is needed, because it has the weights in memory again.
  return { ...free, otherwise };
}

/** No runtime that still installs reads them, so their rules were tested against documents only. */
const OLD_NOTE =
  'layers of IR versions 2 to 9 are converted by their documents, and were not compared with OpenVINO; compare the answers with --reference';

function isBadModel(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'bad_model';
}

function build({ net, files, options, inputs, outputs }: Job, freedBatch: number | undefined): Conversion {
  const problems = new Problems(files.xml.name);
  const g = new GraphBuilder();
  const state: NetState = {
    file: files.xml.name,
    version: net.version,
    weights: files.weights,
    freedBatch,
    isAsDeclared: inputs.every(({ isAsDeclared }) => isAsDeclared),
    problems,
    convertBody: (body, given, inner) => convertLayers(body, given, state, inner),
  };
  const given = new Map(inputs.map((input) => [input.id, inputValue(g, input, freedBatch, options)]));
  const values = convertLayers(net, given, state, g);
  problems.throwIfAny();
  for (const { name, source } of outputs) {
    const value = values.get(source);
    if (!value)
      throw badModel(`${files.xml.name}: output "${name}" comes from port ${source}, which is not there`);
    g.output(name, value);
  }
  const graph = g.finish();
  const image = imageOf(graph);
  return {
    graph,
    files: [files.xml.name, ...(files.weights ? [files.weights.name] : [])],
    notes: [...g.notes, ...(net.version < 10 ? [OLD_NOTE] : [])],
    ...(image ? { image } : {}),
  };
}

function inputValue(
  g: GraphBuilder,
  { name, dtype, shape }: PublicInput,
  freedBatch: number | undefined,
  { constants }: ConvertOptions,
): Value {
  const number = constants && Object.hasOwn(constants, name) ? constants[name] : undefined;
  if (number !== undefined) {
    const fixed = (shape ?? []).map((dim) => (typeof dim === 'number' ? dim : 1));
    return g.constant(
      tensorOf(dtype, fixed, new Array<number>(elementCount(fixed, 2 ** 24)).fill(number)),
      name,
    );
  }
  return g.input(name, dtype, freedBatch === undefined ? shape : (shape as Shape).with(0, BATCH));
}

/** OpenVINO's samples and its model zoo read images with OpenCV: blue before red. */
function imageOf(graph: Body): ImageProposal | undefined {
  for (const { shape } of graph.inputs) {
    if (shape?.length !== 4) continue;
    const isFirst = shape[1] === 1 || shape[1] === 3;
    const channels = isFirst ? shape[1] : shape[3];
    if (channels !== 1 && channels !== 3) continue;
    return { layout: isFirst ? 'chw' : 'hwc', channels: channels === 3 ? 'bgr' : 'grey' };
  }
  return undefined;
}
