/** How sentence-transformers makes one vector of a text: the modules behind the transformer. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { MOST_LAYERS } from '../../lib/text/layers.ts';
import { POOLINGS, type Pooling } from '../../lib/text/settings.ts';
import { readConfig, readJson } from './folder.ts';
import { type ReadLayer, type ReadPickle, readLayer } from './layers.ts';

export interface Modules {
  /** Undefined: the folder does not say it. */
  readonly pooling: readonly Pooling[] | undefined;
  /** Between the pooling and the last scaling. */
  readonly layers: readonly ReadLayer[];
  readonly normalize: boolean;
}

const FLAGS: Readonly<Record<Pooling, string>> = {
  cls: 'pooling_mode_cls_token',
  lasttoken: 'pooling_mode_lasttoken',
  max: 'pooling_mode_max_tokens',
  mean: 'pooling_mode_mean_tokens',
  mean_sqrt_len_tokens: 'pooling_mode_mean_sqrt_len_tokens',
  weightedmean: 'pooling_mode_weightedmean_tokens',
};
/** The order in which they are put together, which is not that of their names. */
const ORDER: readonly Pooling[] = ['cls', 'max', 'mean', 'mean_sqrt_len_tokens', 'weightedmean', 'lasttoken'];
const MODULES_FILE = 'modules.json';

interface Module {
  readonly kind: string;
  /** The folder of its files. */
  readonly path: string;
}

/** @param isPooled the model itself gives one vector for each text. @throws bad_model for modules that are not served */
export async function readModules(
  folder: string,
  isPooled: boolean,
  readPickle: ReadPickle,
): Promise<Modules> {
  if (!existsSync(join(folder, MODULES_FILE)))
    return { pooling: await poolingOf(folder, '1_Pooling'), layers: [], normalize: false };
  const modules = await moduleList(folder);
  // What else a model with a vector for each text is made of is in its graph.
  if (isPooled)
    return { pooling: undefined, layers: [], normalize: modules.some(({ kind }) => kind === 'Normalize') };
  const at = modules.findIndex(({ kind }) => kind === 'Pooling');
  const before = modules.slice(0, at < 0 ? modules.length : at).filter(({ kind }) => kind !== 'Transformer');
  const behind = at < 0 ? [] : modules.slice(at + 1).filter(({ kind }) => kind !== 'Dropout');
  const [strange] = at < 0 ? before.filter(({ kind }) => kind !== 'Normalize') : before;
  if (strange) throw notServed(strange.kind);
  const pooling = at < 0 ? undefined : await poolingOf(folder, modules[at]?.path ?? '');
  if (at < 0) return { pooling, layers: [], normalize: before.length > 0 };
  const normalize = behind.at(-1)?.kind === 'Normalize';
  const layers: ReadLayer[] = [];
  for (const { kind, path } of normalize ? behind.slice(0, -1) : behind) {
    if (kind !== 'Dense' && kind !== 'LayerNorm' && kind !== 'Normalize') throw notServed(kind);
    layers.push(await readLayer(folder, kind, path, readPickle));
  }
  return { pooling, layers, normalize };
}

async function moduleList(folder: string): Promise<Module[]> {
  const list = await readJson(folder, MODULES_FILE);
  if (!Array.isArray(list) || list.length > MOST_LAYERS)
    throw badModel(`${MODULES_FILE}: expected a list of modules`);
  return list.map((entry: unknown) => {
    const { type = '', path = '' }: { type?: unknown; path?: unknown } = Object(entry);
    return { kind: String(type).split('.').at(-1) ?? '', path: String(path) };
  });
}

function notServed(kind: string) {
  return badModel(
    `${MODULES_FILE}: the module ${JSON.stringify(kind.slice(0, 80))} is not served here; export the whole model with \`optimum-cli export onnx --library sentence_transformers\`, whose sentence_embedding has it`,
  );
}

async function poolingOf(folder: string, path: string): Promise<readonly Pooling[] | undefined> {
  if (!/^[\w-]{1,64}$/.test(path))
    throw badModel(`${MODULES_FILE}: expected the path of a folder for the module Pooling`);
  const name = `${path}/config.json`;
  const config = await readConfig(folder, name);
  if (Object.keys(config).length === 0) return undefined;
  const { pooling_mode: mode } = config;
  const modes = mode === undefined ? ORDER.filter((one) => config[FLAGS[one]] === true) : [mode].flat();
  const known = Object.values(FLAGS);
  const other = Object.keys(config).find(
    (key) => key.startsWith('pooling_mode_') && config[key] === true && !known.includes(key),
  );
  const wrong = other ?? modes.find((one) => !POOLINGS.some((each) => each === one));
  if (wrong !== undefined || modes.length === 0) {
    throw badModel(
      `${name}: expected poolings among ${POOLINGS.join(', ')}, found ${JSON.stringify(wrong ?? 'none')}`,
    );
  }
  return modes as Pooling[];
}
