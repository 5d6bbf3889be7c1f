/**
 * Reads a directory with a frozen graph. A frozen graph does not name its inputs and outputs; an optional
 * graph_meta.json in the directory does.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { ConvertOptions } from '../../../source/convert-options.ts';
import type { TfModel } from '../graph.ts';
import { ModelFolder } from './folder.ts';
import { readGraphMeta } from './graph-meta.ts';
import { readMessageFile } from './message-file.ts';
import { buildModel } from './model.ts';
import { readGraph } from './raw.ts';
import { GRAPH } from './tables.ts';

const NAMES = ['frozen_inference_graph', 'frozen_graph', 'frozen_model'];
const ENDINGS = ['.pb', '.pbtxt'];

/** @throws bad_model naming file and node, with the candidates when inputs or outputs are ambiguous */
export async function readFrozenGraph(directory: string, options: ConvertOptions = {}): Promise<TfModel> {
  const folder = new ModelFolder(directory);
  const file = findGraph(folder);
  const message = readMessageFile(folder, file, GRAPH);
  const raw = readGraph(message);
  if (raw.nodes.size === 0) throw badModel(`${file} has no nodes; is it a frozen graph?`);
  const meta = readGraphMeta(folder);
  const notes: string[] = [];
  const source = {
    file,
    raw,
    options,
    inputs: meta?.inputs,
    outputs: meta?.outputs,
    bundle: undefined,
    restoreNode: '',
    advice: 'the graph is not frozen; freeze it, or export a SavedModel',
  };
  return { graph: buildModel(source, notes), files: folder.files, notes };
}

function findGraph(folder: ModelFolder): string {
  for (const name of NAMES) {
    for (const ending of ENDINGS) if (folder.has(name + ending)) return name + ending;
  }
  const graphs = folder
    .names()
    .filter((name) => /\.(?:pb|pbtxt)$/.test(name) && !name.startsWith('saved_model.'));
  const [only] = graphs;
  if (only !== undefined && graphs.length === 1) return only;
  const found = graphs.length === 0 ? 'none' : graphs.slice(0, 20).join(', ');
  throw badModel(`a frozen graph was expected in frozen_inference_graph.pb; graphs found: ${found}`);
}
