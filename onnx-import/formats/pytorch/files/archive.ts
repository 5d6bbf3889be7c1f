/** Opens a PyTorch file: what kind it is, its pickles and storages, and the code of a TorchScript archive. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { readPickle } from '../../../files/pickle.ts';
import type { Pickled } from '../../../files/pickled.ts';
import { readLimited } from '../../../files/read-limited.ts';
import { type Archive, isZip, openArchive } from '../../../files/zip.ts';
import { readLegacy } from './legacy.ts';
import type { Storages } from './tensors.ts';

/** What Node reads into one buffer. */
const MAX_BYTES = 2 ** 31 - 1;
export const ARCHIVE = { entries: 100_000, unpackedBytes: 256 * 1024 * 1024, hasFolder: true } as const;

export interface TorchFile {
  readonly name: string;
  /** Only in programs of torch.export, which have no pickle. */
  readonly program?: Archive;
  /** The pickled object: a module, a state_dict or anything else. */
  readonly root: Pickled;
  readonly storages: Storages;
  /** Only in TorchScript archives. */
  readonly script:
    | { readonly constants: Pickled; readonly constantStorages: Storages; readonly archive: Archive }
    | undefined;
}

const NO_STORAGES: Storages = (key) => {
  throw badModel(`the file has no storage ${key}`);
};

function isProgram({ names }: Archive): boolean {
  return names.some((entry) => entry.startsWith('models/') || entry === 'serialized_exported_program.json');
}

/** @throws bad_model for files that are too large, broken, or of another kind */
export async function openTorchFile(directory: string, name: string): Promise<TorchFile> {
  return readTorchFile(await readLimited(directory, name, MAX_BYTES), name);
}

export function readTorchFile(file: Buffer, name: string): TorchFile {
  if (!isZip(file)) return { name, ...readLegacy(file, name), script: undefined };
  const archive = openArchive(file, name, ARCHIVE);
  const has = (entry: string) => archive.names.includes(entry);
  if (has('model.json'))
    throw badModel(
      `${name}: is a TorchScript archive of PyTorch 1.3 or older; load it in a newer PyTorch with torch.jit.load and save it again`,
    );
  if (isProgram(archive))
    return { name, root: null, storages: NO_STORAGES, script: undefined, program: archive };
  if (!has('data.pkl')) throw badModel(`${name}: is a zip archive without data.pkl, so no PyTorch model`);
  if (has('byteorder') && Buffer.from(archive.read('byteorder')).toString('utf8').trim() !== 'little')
    throw badModel(`${name}: was saved on a big-endian machine, which is not read`);
  const storages = (folder: string): Storages => {
    return (key) => archive.read(`${folder}/${/^[\w.-]+$/.test(key) ? key : '?'}`);
  };
  const root = readPickle(archive.read('data.pkl'), `${name}: data.pkl`).value;
  if (!archive.names.some((entry) => entry.startsWith('code/')))
    return { name, root, storages: storages('data'), script: undefined };
  const constants = has('constants.pkl')
    ? readPickle(archive.read('constants.pkl'), `${name}: constants.pkl`).value
    : null;
  return {
    name,
    root,
    storages: storages('data'),
    script: { constants, constantStorages: storages('constants'), archive },
  };
}
