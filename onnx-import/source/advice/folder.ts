/** What to do about a folder without a model: by the names of its files, by what they hold, and by the folders below it. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readHead } from '../../../lib/registry/onnx-file.ts';
import { readConfig } from '../../text/folder.ts';
import { candidatesIn } from '../candidates.ts';
import { contentOf } from './content.ts';
import { adviceOn, adviceOnContent, adviceOnUnknown } from './no-model.ts';

const MAX_FILES = 20;
const MAX_FOLDERS = 100;
/** Beyond the depth in which models are looked for. */
const MAX_DEPTH = 6;

const EXPECTED =
  'expected one, such as model.onnx, saved_model.pb, model.pt or model.json of XGBoost; docs/how-to/import-a-model.md#prepare-the-directory lists all';
const ELSEWHERE = ', and docs/how-to/serve-your-own-code.md serves a model of another library';

export async function adviceOnFolder(folder: string, names: readonly string[]): Promise<string> {
  const said =
    (await adviceOnTimm(folder, names)) ??
    adviceOn(names) ??
    (await adviceOnFiles(folder, names)) ??
    (await adviceBelow(folder)) ??
    adviceOnUnknown(names) ??
    EXPECTED + (names.length > 0 ? ELSEWHERE : '');
  const task = said.includes('--task TASK') ? await taskOf(folder, names) : undefined;
  return task === undefined ? said : said.replaceAll('--task TASK', `--task ${task}`);
}

/** By the end of the class that config.json names. */
const TASKS: readonly (readonly [architecture: RegExp, task: string])[] = [
  [/ForSequenceClassification$/, 'text-classification'],
  [/ForTokenClassification$/, 'token-classification'],
  [/ForQuestionAnswering$/, 'question-answering'],
  [/ForMaskedLM$/, 'fill-mask'],
  [/ForImageClassification$/, 'image-classification'],
  [/ForObjectDetection$/, 'object-detection'],
  [/ForSemanticSegmentation$/, 'semantic-segmentation'],
  [/ForAudioClassification$/, 'audio-classification'],
  [/ForCTC$/, 'automatic-speech-recognition'],
  [/(ForCausalLM|LMHeadModel)$/, 'text-generation-with-past'],
  [/ForConditionalGeneration$/, 'text2text-generation-with-past'],
  [/Model$/, 'feature-extraction'],
];

async function taskOf(folder: string, names: readonly string[]): Promise<string | undefined> {
  if (names.includes('modules.json')) return 'feature-extraction';
  const { architectures } = await readConfig(folder, 'config.json').catch(() => ({
    architectures: undefined,
  }));
  const [first] = Array.isArray(architectures) ? architectures : [];
  return TASKS.find(([architecture]) => typeof first === 'string' && architecture.test(first))?.[1];
}

/** What to do about one file that no kind of model has as its name. */
export async function adviceOnFile(folder: string, name: string): Promise<string | undefined> {
  return adviceOn([name]) ?? (await adviceOnFiles(folder, [name])) ?? adviceOnUnknown([name]);
}

/** The files of timm are named like those of Transformers, whose exporter does not read them. */
async function adviceOnTimm(folder: string, names: readonly string[]): Promise<string | undefined> {
  if (!names.includes('config.json')) return undefined;
  const head = Buffer.from(await headOf(folder, 'config.json')).toString();
  const [, architecture] = /^\{\s*"architecture":\s*"([\w.-]+)"/.exec(head) ?? [];
  return (
    architecture &&
    `these are weights of timm (${architecture}); in Python: torch.onnx.export(timm.create_model("local-dir:.", pretrained=True).eval(), (torch.rand(1, 3, 224, 224),), "model.onnx"), with the input_size of config.json`
  );
}

async function adviceOnFiles(folder: string, names: readonly string[]): Promise<string | undefined> {
  for (const name of names.slice(0, MAX_FILES)) {
    const content = contentOf(await headOf(folder, name));
    if (content) return adviceOnContent(name, content);
  }
  return undefined;
}

async function headOf(folder: string, name: string): Promise<Uint8Array> {
  return readHead(join(folder, name)).catch(() => new Uint8Array());
}

/** Some models are folders themselves, and some lie deeper than anybody looks. */
async function adviceBelow(folder: string): Promise<string | undefined> {
  const open = [''];
  for (let at = 0; at < open.length && at < MAX_FOLDERS; at += 1) {
    const path = open[at] ?? '';
    const entries = await readdir(join(folder, path), { withFileTypes: true }).catch(() => []);
    const visible = entries.filter(({ name }) => !name.startsWith('.'));
    const folders = visible.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const files = visible.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
    if (path !== '' && candidatesIn(files).length > 0)
      return `${join(folder, path)} holds a model: name that folder`;
    const said = adviceOn([...(path === '' ? [] : files.sort()), ...folders.sort()]);
    if (said !== undefined) return path === '' ? said : `in ${path}: ${said}`;
    if (path.split('/').length < MAX_DEPTH) open.push(...folders.map((name) => join(path, name)));
  }
  return undefined;
}
