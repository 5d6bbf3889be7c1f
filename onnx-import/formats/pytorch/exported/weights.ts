/** The weights and constants of a program: raw bytes, described by a JSON beside them. */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import type { Archive } from '../../../files/zip.ts';
import { layTensor, STORAGES, type StorageType } from '../files/tensors.ts';
import { count, type Json, list, object, optional, parseJson, text } from './json.ts';

/** The places, in the order in which a name is looked for. */
const PLACES = ['weights', 'constants'] as const;

/** Torch's names of storages by torch's number of the dtype. */
const STORAGE_OF = 'Byte Char Short Int Long Half Float Double'.split(' ');

/** Torch's number of a dtype; programs count from 1, with bfloat16 elsewhere. */
export function typeOf(serialized: unknown): number {
  const number = count(serialized, 'dtype');
  return number === 13 ? 15 : number - 1;
}

function storageOf(number: number): StorageType {
  const name = number === 11 ? 'Bool' : number === 15 ? 'BFloat16' : (STORAGE_OF[number] ?? '');
  const type = STORAGES[`torch.${name}Storage`];
  if (!type) throw badModel(`a weight of torch's dtype ${number} is not supported`);
  return type;
}

export class ProgramWeights {
  readonly #archive: Archive;
  readonly #file: string;
  readonly #read = new Map<string, Tensor>();
  readonly #described: ReadonlyMap<string, { readonly place: string; readonly of: Json }>;

  constructor(archive: Archive, file: string, model: string) {
    this.#archive = archive;
    this.#file = file;
    const described = PLACES.flatMap((place) => {
      const entry = `data/${place}/${model}_${place}_config.json`;
      if (!archive.names.includes(entry)) return [];
      const config = object(object(parseJson(archive.read(entry), entry), entry)['config'], 'config');
      return Object.entries(config).map(([name, of]) => [name, { place, of: object(of, name) }] as const);
    });
    this.#described = new Map(described);
  }

  /** @throws bad_model when the archive has no such tensor */
  reader(name: string): () => Tensor {
    const found = this.#described.get(name);
    if (!found) throw badModel(`${this.#file}: has no weights of ${name}`);
    return () => {
      const tensor = this.#read.get(name) ?? this.#tensor(name, found.place, found.of);
      this.#read.set(name, tensor);
      return tensor;
    };
  }

  #tensor(name: string, place: string, of: Json): Tensor {
    const meta = optional(of['tensor_meta']);
    if (of['use_pickle'] === true || !meta)
      throw badModel(`${this.#file}: ${name} is pickled, as a tensor of a class of its own; it is not read`);
    const sizes = (key: string) =>
      list(meta[key], key).map((size) => count(object(size, key)['as_int'], `size of ${name}`));
    const path = text(of['path_name'], 'path_name');
    return layTensor(storageOf(typeOf(meta['dtype'])), this.#archive.read(`data/${place}/${path}`), {
      shape: sizes('sizes'),
      steps: sizes('strides'),
      offset: count(object(meta['storage_offset'], 'storage_offset')['as_int'], 'storage_offset'),
    });
  }
}
