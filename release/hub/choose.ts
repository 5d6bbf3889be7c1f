/**
 * Chooses the files of a repository that an import needs: the model, and the few that say how it is used. Of several
 * variants the plain one is taken. Pickles are code and are never chosen.
 */
import { IGNORABLE } from '../../lib/config/import-values.ts';
import { badModel } from '../../lib/contract/errors.ts';
import { NAMES_FILE } from '../../lib/registry/names.ts';
import { shownNames } from '../../lib/registry/onnx-file.ts';
import { TOKENIZER_FILE } from '../../lib/text/part.ts';
import {
  adviceOn,
  type Candidate,
  CONFIG_FILES,
  candidatesIn,
  type ModelKind,
  weightsOf,
} from '../../onnx-import/index.ts';

export interface Chosen {
  /** The file of the model, in the repository. */
  readonly model: string;
  /** In the repository. */
  readonly paths: readonly string[];
}

const BESIDE: readonly string[] = [TOKENIZER_FILE, ...CONFIG_FILES, ...IGNORABLE, NAMES_FILE, 'labels.txt'];
/** The files that sentence-transformers keeps of each module. */
const MODULE_FILE = /^\d{1,2}_\w{1,40}\/(config\.json|model\.safetensors)$/;
const PLAIN = ['model.onnx', 'onnx/model.onnx'];
const PICKLES = /\.(bin|pt|pth|ckpt|pkl|pickle|joblib|dill)$/i;
/** Folders of exports, where the root has no model. */
const FOLDERS = ['', 'onnx/', 'openvino/'];
/** Files of these kinds hold a pickle, or stand for one. */
const REFUSED: readonly ModelKind[] = ['pytorch', 'bigdl'];

/** @param address for messages. @throws bad_model with advice */
export function chooseFiles(
  paths: readonly string[],
  {
    address,
    file,
    repo,
  }: { readonly address: string; readonly file: string | undefined; readonly repo: string },
): Chosen {
  if (file !== undefined && !paths.includes(file))
    throw badModel(`${address}: there is no file ${file}; there are ${shownNames(paths)}`);
  const model = file ?? plainOnnx(paths, address) ?? otherModel(paths);
  const [found] = model === undefined ? [] : candidatesIn(beside(paths, model, (name) => name === model));
  if (model === undefined || found === undefined || REFUSED.includes(found.kind))
    throw nothing(paths, address, file, repo);
  const side = BESIDE.filter((name) => paths.includes(name));
  const modules = paths.filter((path) => MODULE_FILE.test(path));
  return { model, paths: [...new Set([...partsOf(found, model, paths), ...side, ...modules])] };
}

/** Names in the folder of the model. */
function beside(paths: readonly string[], model: string, isWanted: (path: string) => boolean): string[] {
  const folder = folderOf(model);
  const within = paths.filter((path) => path.startsWith(folder) && isWanted(path));
  return within.map((path) => path.slice(folder.length));
}

/** `onnx/` of `onnx/model.onnx`. */
export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1);
}

function plainOnnx(paths: readonly string[], address: string): string | undefined {
  const plain = PLAIN.find((path) => paths.includes(path));
  if (plain !== undefined) return plain;
  const all = paths.filter((path) => /\.onnx$/i.test(path));
  const nearest = ['', 'onnx/'].map((folder) => all.filter((path) => folderOf(path) === folder));
  const models = nearest.find((found) => found.length > 0) ?? all;
  if (models.length < 2) return models[0];
  const example = `${address}/${models[0]}`;
  throw badModel(`${address}: expected one model, found ${shownNames(models)}; name one, as ${example}`);
}

/** The only model of another format, in the first folder that has any. */
function otherModel(paths: readonly string[]): string | undefined {
  for (const folder of FOLDERS) {
    const names = paths.filter((path) => folderOf(path) === folder).map((path) => path.slice(folder.length));
    const found = candidatesIn(names).filter(({ kind }) => !REFUSED.includes(kind));
    if (found.length > 0) return found.length === 1 ? `${folder}${found[0]?.file}` : undefined;
  }
  return undefined;
}

function partsOf({ kind, file }: Candidate, model: string, paths: readonly string[]): readonly string[] {
  const folder = folderOf(model);
  const matching = (pattern: RegExp) => paths.filter((path) => pattern.test(path) && path.startsWith(folder));
  const same = (pattern: RegExp) => matching(pattern).filter((path) => folderOf(path) === folder);
  switch (kind) {
    case 'openvino':
      return [model, ...same(/\.bin$/i).filter((path) => path === `${folder}${weightsOf(file)}`)];
    case 'tf_saved_model':
      return [model, ...matching(/(?:^|\/)(?:variables|assets)\/[^/]+$/)];
    case 'tf_frozen':
      return [model, ...same(/(?:^|\/)graph_meta\.json$/)];
    case 'tf_checkpoint':
      return same(/\.meta$|\.index$|\.data-\d+-of-\d+$|(?:^|\/)checkpoint$|(?:^|\/)graph_meta\.json$/);
    case 'caffe':
      return same(/\.prototxt$|\.caffemodel$/i);
    default:
      return [model];
  }
}

function nothing(paths: readonly string[], address: string, file: string | undefined, repo: string): Error {
  const names = file === undefined ? paths : [file];
  const pickle = names.find((path) => PICKLES.test(path));
  const weights = names.find((path) => /\.(safetensors|msgpack|h5|ot)$/i.test(path));
  const what = `${address}: expected a model that can be imported, such as model.onnx or onnx/model.onnx; found ${shownNames(names)}`;
  const isTransformers = paths.includes('config.json') && (pickle ?? weights) !== undefined;
  const export_ = `optimum-cli export onnx --model ${repo} ${repo.split('/')[1]}-onnx`;
  if (isTransformers) {
    const why =
      pickle === undefined
        ? `${weights} holds weights without a graph`
        : `${pickle} is a pickle, which is code and is never downloaded`;
    return badModel(`${what}; ${why}: \`${export_}\` writes ONNX, whose folder can be imported`);
  }
  const advice = adviceOn(names.map((path) => path.slice(path.lastIndexOf('/') + 1)));
  return badModel(
    pickle === undefined
      ? `${what}${advice === undefined ? '' : `; ${advice}`}`
      : `${what}; ${pickle} is a pickle, which is code and is never downloaded: export the model to ONNX, or, if it is TorchScript, download it yourself and name its folder`,
  );
}
