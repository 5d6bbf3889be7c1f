/** Reads from the files beside a model how its pictures are prepared. */
import { basename, dirname } from 'node:path';
import { asError, badModel } from '../../lib/contract/errors.ts';
import { IMAGE_FILE } from '../../lib/registry/image-file.ts';
import { textOf } from '../../lib/registry/names.ts';
import { type Fields, fieldsOf } from './fields.ts';
import { readProcessor, type SaidImage } from './processor.ts';
import { readTimm } from './timm.ts';

export interface FolderImage extends SaidImage {
  readonly source: 'preprocessor_config.json' | 'processor_config.json' | 'config.json';
  /** Of config.json: a model that leaves the number of channels open has this one. */
  readonly depth: number | undefined;
}

type Reader = (fields: Fields) => SaidImage | undefined;

/** The first that speaks of pictures counts. */
const READERS: readonly (readonly [FolderImage['source'], Reader])[] = [
  ['preprocessor_config.json', processorOrTimm],
  // Newer folders keep the fields of each processor apart.
  ['processor_config.json', (fields) => ofNested(fields['image_processor'])],
  ['config.json', (fields) => nested(fields['pretrained_cfg'], readTimm)],
];

function processorOrTimm(fields: Fields): SaidImage | undefined {
  if (fields['sampling_rate'] !== undefined || fields['feature_size'] !== undefined) return undefined;
  return nested(fields['data_config'], readTimm) ?? readProcessor(fields);
}

function nested(value: unknown, read: Reader): SaidImage | undefined {
  const fields = fieldsOf(value);
  return fields && read(fields);
}

const ofNested = (value: unknown) => nested(value, processorOrTimm);

/**
 * Undefined where no file speaks of pictures, or `import.ignore` names the one that does.
 * @throws bad_model for a file that is no JSON
 */
export async function folderImage(
  beside: ReadBeside,
  { ignore = [] }: { readonly ignore?: readonly string[] | undefined } = {},
): Promise<FolderImage | undefined> {
  const config = await beside('config.json');
  const depth = typeof config?.['num_channels'] === 'number' ? config['num_channels'] : undefined;
  for (const [source, read] of READERS) {
    const fields = await beside(source);
    const said = fields && read(fields);
    if (said) return ignore.includes(source) ? undefined : { source, depth, ...said };
  }
  return undefined;
}

/** True if only an import can store how pictures are prepared. The import reports what is wrong with the files. */
export async function hasImageToStore(directory: string, names: readonly string[]): Promise<boolean> {
  if (names.includes(IMAGE_FILE)) return false;
  return folderImage(besideReader(directory)).then(
    (said) => said !== undefined,
    () => true,
  );
}

/** Gives the fields of a JSON file beside a model; undefined where there is none. @throws bad_model for what is no JSON */
export type ReadBeside = (name: string) => Promise<Fields | undefined>;

/**
 * Reads each file once, however often it is asked for.
 * @param directory a folder `onnx/` belongs to the one above it
 */
export function besideReader(directory: string): ReadBeside {
  const read = new Map<string, Promise<Fields | undefined>>();
  return (name) => {
    const fields = read.get(name) ?? fieldsIn(directory, name);
    read.set(name, fields);
    return fields;
  };
}

async function fieldsIn(directory: string, name: string): Promise<Fields | undefined> {
  const folders = basename(directory) === 'onnx' ? [directory, dirname(directory)] : [directory];
  for (const folder of folders) {
    const text = await textOf(folder, name);
    if (text === undefined) continue;
    try {
      return fieldsOf(JSON.parse(text));
    } catch (error) {
      throw badModel(`${folder}/${name}: expected JSON: ${asError(error).message}`, { cause: error });
    }
  }
  return undefined;
}
