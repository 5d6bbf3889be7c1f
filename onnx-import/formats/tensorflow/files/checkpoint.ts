/**
 * Reads a checkpoint directory (`<prefix>.meta`, `.index`, `.data-*`): its graph and the values of its variables. The
 * file `checkpoint` gives the prefix as a path on the training machine; only its last segment counts.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { ConvertOptions } from '../../../source/convert-options.ts';
import { mapOf, messageOf, messagesOf, textOf } from '../../../wire/message.ts';
import type { Message, Table } from '../../../wire/table.ts';
import { readText } from '../../../wire/text.ts';
import type { TfModel } from '../graph.ts';
import { Bundle } from './bundle/bundle.ts';
import { ModelFolder } from './folder.ts';
import { readGraphMeta } from './graph-meta.ts';
import { readMessageFile } from './message-file.ts';
import { buildModel } from './model.ts';
import { readGraph, splitGraphInput } from './raw.ts';
import { readSignature, type Signature } from './signature.ts';
import { META_GRAPH } from './tables.ts';

const STATE: Table = { 1: { name: 'model_checkpoint_path', type: 'string' } };

/** @throws bad_model naming file and node, with the candidates when inputs or outputs are ambiguous */
export async function readCheckpoint(directory: string, options: ConvertOptions = {}): Promise<TfModel> {
  const folder = new ModelFolder(directory);
  const prefix = findPrefix(folder);
  const file = findMeta(folder, prefix);
  const bundle = new Bundle(folder, prefix);
  const meta = readMessageFile(folder, file, META_GRAPH);
  const graph = messageOf(meta, 'graph_def');
  if (graph === undefined) throw badModel(`${file} has no graph; is it a checkpoint's meta graph?`);
  const info = messageOf(meta, 'meta_info_def');
  const operations = info === undefined ? undefined : messageOf(info, 'stripped_op_list');
  const raw = readGraph(graph, operations === undefined ? [] : messagesOf(operations, 'op'));
  const names = readGraphMeta(folder) ?? onlySignature(meta, options, file);
  const saver = messageOf(meta, 'saver_def');
  const restore = saver === undefined ? '' : textOf(saver, 'restore_op_name');
  const notes: string[] = [];
  const source = {
    file,
    raw,
    options,
    inputs: names?.inputs,
    outputs: names?.outputs,
    bundle,
    restoreNode: restore === '' ? '' : splitGraphInput(restore).replace(/:\d+$/, ''),
    advice: '',
  };
  return { graph: buildModel(source, notes), files: folder.files, notes };
}

/** The prefix of the latest checkpoint. */
function findPrefix(folder: ModelFolder): string {
  const prefixes = folder
    .names()
    .filter((name) => name.endsWith('.index'))
    .map((name) => name.slice(0, -'.index'.length));
  if (folder.has('checkpoint')) {
    const text = Buffer.from(folder.read('checkpoint')).toString('utf8');
    const path = textOf(readText(text, STATE, { what: 'checkpoint' }), 'model_checkpoint_path');
    const latest = path.split(/[/\\]/).at(-1) ?? '';
    if (prefixes.includes(latest)) return latest;
  }
  const [only] = prefixes;
  if (only !== undefined && prefixes.length === 1) return only;
  if (prefixes.length > 1) {
    throw badModel(
      `there are several checkpoints and no file "checkpoint" that says which is the latest: ${prefixes.slice(0, 20).join(', ')}`,
    );
  }
  throw badModel(
    'a checkpoint has an .index and a .data file, and here is no .index. A single .ckpt file is of the first format, which TensorFlow left in 2016: save it again',
  );
}

function findMeta(folder: ModelFolder, prefix: string): string {
  if (folder.has(`${prefix}.meta`)) return `${prefix}.meta`;
  const metas = folder.names().filter((name) => /\.meta(?:\.pbtxt)?$/.test(name));
  const [only] = metas;
  if (only !== undefined && metas.length === 1) return only;
  throw badModel(
    `${prefix}.meta is missing. A checkpoint without its graph holds weights only: export a SavedModel (model.export, tf.saved_model.save)`,
  );
}

/** Meta graphs rarely have signatures. If there is exactly one, it is used. */
function onlySignature(meta: Message, options: ConvertOptions, file: string): Signature | undefined {
  const all = mapOf(meta, 'signature_def') as ReadonlyMap<string, Message>;
  const name =
    options.signature ??
    (all.has('serving_default') || all.size !== 1 ? 'serving_default' : [...all.keys()][0]);
  const signature = name === undefined ? undefined : all.get(name);
  if (signature !== undefined && name !== undefined) return readSignature(signature, name, file);
  if (options.signature === undefined) return undefined;
  throw badModel(`${file} has no signature "${options.signature}"`);
}
