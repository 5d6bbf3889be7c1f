/** Found -> Converted: writes the model as ONNX. An ONNX model is copied, but for what no service can run. */
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { NO_NAMES } from '../../lib/registry/names.ts';
import { convertModel } from '../formats/convert.ts';
import type { Body } from '../graph/value.ts';
import { readOnnxFacts } from '../onnx/facts.ts';
import { rewriteOnnx } from '../onnx/rewrite/rewrite.ts';
import { writeOnnx, writeParts } from '../onnx/write.ts';
import { inModelProcess } from '../process/model-process.ts';
import { isOnnx } from '../source/kinds.ts';
import { copySource } from '../source/sources.ts';
import { assertWeights } from '../source/weights.ts';
import { NODES } from '../verify/tasks.ts';
import { withProvenRows } from './free-rows.ts';
import { type Converted, type Found, MODEL_FILE, type Workshop } from './stages.ts';

/** For comparing the nodes of a large forest. */
const NODES_MS = 300_000;

/** @throws bad_model naming everything that cannot be converted */
export function convertFound(found: Found, workshop: Workshop): Promise<Converted> {
  return isOnnx(found.kind) ? keep(found, workshop) : convert(found, workshop);
}

async function convert(found: Found, workshop: Workshop): Promise<Converted> {
  const { folder } = workshop;
  workshop.onStage?.('converting');
  const settings = { ...found.mlflow?.defaults, ...workshop.convert };
  const first = await (workshop.converter ?? convertModel)(found, settings);
  const conversion = await withProvenRows(first, folder, workshop);
  const { graph, files, image, notes, names = NO_NAMES } = conversion;
  const inputs = graph.inputs.filter(({ shape }) => shape === undefined).map(({ name }) => name);
  const outputs = graph.outputs.filter(({ value }) => value.shape === undefined).map(({ name }) => name);
  const facts = await write(graph, workshop);
  const isFreed = conversion === first && first.otherwise !== undefined;
  const sources = found.isText ? found.files : files;
  return { found, facts, shapeless: { inputs, outputs }, sources, notes, image, isFreed, names };
}

async function write(
  graph: Body,
  { folder, version, onStage, signal }: Workshop,
): Promise<Converted['facts']> {
  signal?.throwIfAborted();
  onStage?.('writing');
  const { files, ...versions } = await writeOnnx(graph, join(folder, MODEL_FILE), {
    producerVersion: version,
    onProgress: (done, total) => {
      signal?.throwIfAborted();
      onStage?.('writing', done, total);
    },
  });
  return { ...versions, externalFiles: files.slice(1).map((path) => basename(path)) };
}

/** With its external weights. */
async function keep(found: Found, { folder, signal, process, joined }: Workshop): Promise<Converted> {
  const [name] = found.files as readonly [string];
  const [source, target] = [joined?.path ?? join(found.directory, name), join(folder, MODEL_FILE)];
  const { externalFiles, externalBytes, shapelessInputs, shapelessOutputs } = await readOnnxFacts(source);
  await assertWeights(dirname(source), basename(source), externalBytes);
  const rewritten = await rewriteOnnx(source);
  for (const path of externalFiles) await copySource(found, join(dirname(name), path), join(folder, path));
  if (rewritten.model) await writeParts(target, rewritten.model.parts);
  else if (joined) await rename(source, target);
  else await copySource(found, name, target);
  // The nodes of the source as they are answered now: the check compares those of the new file, in which most have no
  // transform.
  const request = { file: source, isMended: true };
  const open = rewritten.model ? await inModelProcess(NODES, request, { ms: NODES_MS, signal }, process) : [];
  if (joined) await rm(source, { force: true });
  return {
    found,
    facts: await readOnnxFacts(target),
    shapeless: { inputs: shapelessInputs, outputs: shapelessOutputs },
    sources: found.isText || joined ? found.files : [name, ...externalFiles],
    notes: [...(joined?.notes ?? []), ...rewritten.notes, ...open],
    image: undefined,
    isFreed: false,
    names: { columns: {}, labels: rewritten.labels },
  };
}
