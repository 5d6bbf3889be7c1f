/**
 * Reads the graph of one signature of a SavedModel. The keys of a signature are the public names of its tensors,
 * whose own names are arbitrary.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { ConvertOptions } from '../../../source/convert-options.ts';
import { mapOf, messageOf, messagesOf, textOf, textsOf } from '../../../wire/message.ts';
import type { Message } from '../../../wire/table.ts';
import type { TfModel } from '../graph.ts';
import { Bundle } from './bundle/bundle.ts';
import { ModelFolder } from './folder.ts';
import type { Assets } from './hash-tables.ts';
import { readMessageFile } from './message-file.ts';
import { buildModel } from './model.ts';
import { readGraph, splitGraphInput } from './raw.ts';
import { readSignature, type Signature } from './signature.ts';
import { SAVED_MODEL } from './tables.ts';

const FILES = ['saved_model.pb', 'saved_model.pbtxt'];
const VARIABLES = 'variables/variables';
const OLD_VARIABLES = [VARIABLES, `${VARIABLES}-00000-of-00001`];
const DEFAULT_SIGNATURE = 'serving_default';
const DEFAULT_TAG = 'serve';

/** @throws bad_model naming file and node, with the choices when tags or signature are ambiguous */
export async function readSavedModel(directory: string, options: ConvertOptions = {}): Promise<TfModel> {
  const folder = new ModelFolder(directory);
  const file = FILES.find((name) => folder.has(name));
  if (file === undefined) throw badModel(`neither ${FILES.join(' nor ')} is in the directory`);
  const notes: string[] = [];
  const meta = chooseGraph(readMessageFile(folder, file, SAVED_MODEL), options, file, notes);
  const graph = messageOf(meta, 'graph_def');
  if (graph === undefined) throw badModel(`${file} has no graph`);
  const info = messageOf(meta, 'meta_info_def');
  const operations = info === undefined ? undefined : messageOf(info, 'stripped_op_list');
  const raw = readGraph(graph, operations === undefined ? [] : messagesOf(operations, 'op'));
  const signature = chooseSignature(meta, options, file, notes);
  const saver = messageOf(meta, 'saver_def');
  const restore = saver === undefined ? '' : textOf(saver, 'restore_op_name');
  const source = {
    file,
    raw,
    options,
    inputs: signature?.inputs,
    outputs: signature?.outputs,
    assets: assetsOf(meta, folder),
    bundle: folder.has(`${VARIABLES}.index`) ? new Bundle(folder, VARIABLES) : undefined,
    restoreNode: restore === '' ? '' : splitGraphInput(restore).replace(/:\d+$/, ''),
    advice: OLD_VARIABLES.some((name) => folder.has(name))
      ? 'the variables are of the first format of checkpoints, which TensorFlow left in 2016: save the model again'
      : `${VARIABLES}.index is missing; copy the whole directory of the SavedModel`,
  };
  return { graph: buildModel(source, notes), files: folder.files, notes };
}

const INITIAL_SIGNATURE = '__saved_model_init_op';

function assetsOf(meta: Message, folder: ModelFolder): Assets {
  const files = messagesOf(meta, 'asset_file_def').map((asset): [string, string] => {
    const info = messageOf(asset, 'tensor_info');
    return [info === undefined ? '' : splitGraphInput(textOf(info, 'name')), textOf(asset, 'filename')];
  });
  const signature = mapOf(meta, 'signature_def').get(INITIAL_SIGNATURE) as Message | undefined;
  const outputs = signature === undefined ? undefined : mapOf(signature, 'outputs');
  const initial = outputs?.get(INITIAL_SIGNATURE) as Message | undefined;
  const node = initial === undefined ? '' : textOf(initial, 'name').replace(/:\d+$/, '');
  return { folder, files: new Map(files), initialNode: node };
}

function tagsOf(meta: Message): string[] {
  const info = messageOf(meta, 'meta_info_def');
  return info === undefined ? [] : [...textsOf(info, 'tags')];
}

function chooseGraph(model: Message, options: ConvertOptions, file: string, notes: string[]): Message {
  const graphs = messagesOf(model, 'meta_graphs');
  if (graphs.length === 0) throw badModel(`${file} holds no graph; is it a SavedModel?`);
  const wanted = options.tags ?? [DEFAULT_TAG];
  const exact = graphs.filter((meta) => sameTags(tagsOf(meta), wanted));
  const [first] = exact;
  if (first !== undefined) return first;
  const tags = graphs.map((meta) => `[${tagsOf(meta).join(', ')}]`).join(' ');
  if (options.tags === undefined) {
    const serving = graphs.filter((meta) => tagsOf(meta).includes(DEFAULT_TAG));
    // TensorFlow Hub modules have a graph without tags, and one for training.
    const untagged = graphs.filter((meta) => tagsOf(meta).length === 0);
    const [only] = [serving, untagged, graphs].find((some) => some.length === 1) ?? [];
    if (only !== undefined) {
      notes.push(`the graph with the tags [${tagsOf(only).join(', ')}] was taken`);
      return only;
    }
  }
  throw badModel(`${file} has no graph with the tags [${wanted.join(', ')}]; it has ${tags}`);
}

function sameTags(tags: readonly string[], wanted: readonly string[]): boolean {
  return new Set(tags).size === new Set(wanted).size && wanted.every((tag) => tags.includes(tag));
}

/** Returns undefined when there is none but the user named inputs and outputs. */
function chooseSignature(
  meta: Message,
  options: ConvertOptions,
  file: string,
  notes: string[],
): Signature | undefined {
  const all = mapOf(meta, 'signature_def') as ReadonlyMap<string, Message>;
  const names = [...all.keys()].filter((name) => !name.startsWith('__saved_model_')).toSorted();
  const listed = names.length === 0 ? 'none' : names.join(', ');
  const asked = options.signature;
  if (asked !== undefined) {
    const signature = all.get(asked);
    if (signature !== undefined) return readSignature(signature, asked, file);
    throw badModel(`${file} has no signature "${asked}"; it has ${listed}`);
  }
  const usual = all.get(DEFAULT_SIGNATURE);
  if (usual !== undefined && isUsable(usual)) return readSignature(usual, DEFAULT_SIGNATURE, file);
  const usable = names.filter((name) => isUsable(all.get(name) ?? {}));
  const [only] = usable;
  if (only !== undefined && usable.length === 1) {
    notes.push(`the signature "${only}" was taken, the only one there is`);
    return readSignature(all.get(only) ?? {}, only, file);
  }
  if (options.inputNames !== undefined && options.outputNames !== undefined) return undefined;
  if (usable.length > 1) {
    throw badModel(`${file} has no signature "${DEFAULT_SIGNATURE}"; choose one of ${usable.join(', ')}`);
  }
  throw badModel(
    `${file} has no signature that gives anything. Export it with one (tf.saved_model.save(model, path, signatures=...)), or name inputs and outputs by their tensors`,
  );
}

function isUsable(signature: Message): boolean {
  return mapOf(signature, 'outputs').size > 0;
}
