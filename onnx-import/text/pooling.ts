/** How sentence-transformers makes one vector of a text: the modules behind the transformer. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { POOLINGS, type Pooling } from '../../lib/text/settings.ts';
import { readConfig, readJson } from './folder.ts';

export interface Modules {
  /** Undefined: the folder does not say it. */
  readonly pooling: readonly Pooling[] | undefined;
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

/** @param isPooled the model itself gives one vector for each text. @throws bad_model for modules that are not served */
export async function readModules(folder: string, isPooled: boolean): Promise<Modules> {
  if (!existsSync(join(folder, MODULES_FILE))) {
    const pooling = await poolingOf(folder, '1_Pooling');
    return { pooling, normalize: false };
  }
  const list = await readJson(folder, MODULES_FILE);
  if (!Array.isArray(list) || list.length > 16) throw badModel(`${MODULES_FILE}: expected a list of modules`);
  let pooling: readonly Pooling[] | undefined;
  let normalize = false;
  for (const entry of list as unknown[]) {
    const { type = '', path = '' } = (entry ?? {}) as { type?: unknown; path?: unknown };
    const kind = String(type).split('.').at(-1);
    if (kind === 'Transformer') continue;
    if (kind === 'Normalize') normalize = true;
    else if (kind === 'Pooling') pooling = await poolingOf(folder, String(path));
    else if (!isPooled) {
      throw badModel(
        `${MODULES_FILE}: the module ${JSON.stringify(String(type).slice(0, 80))} is not served; export the whole model with \`optimum-cli export onnx --library sentence_transformers\`, whose sentence_embedding has it`,
      );
    }
  }
  return { pooling, normalize };
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
