/**
 * Finds the net (text) and the optional weights in a model's directory. When several nets remain, the user must
 * choose.
 */
import { readdir } from 'node:fs/promises';
import { badModel } from '../../../lib/contract/errors.ts';
import { readLimited } from '../../files/read-limited.ts';
import { chosenNets } from '../../source/caffe-nets.ts';

/** The largest deploy nets we know (SSD, DenseNet) are under 300 KB. */
const MAX_TEXT_BYTES = 16 * 1024 * 1024;
/** A protobuf message ends at 2 GB. */
const MAX_WEIGHT_BYTES = 2 ** 31 - 1;

interface CaffeFiles {
  /** File name and content of the prototxt. */
  readonly net: { readonly name: string; readonly text: string };
  /** File name and content of the caffemodel. */
  readonly weights: { readonly name: string; readonly bytes: Uint8Array } | undefined;
}

/** @throws bad_model unless the directory holds exactly one net and at most one file of weights */
export async function readFiles(directory: string): Promise<CaffeFiles> {
  const names = await list(directory);
  const nets = chosenNets(names);
  const models = names.filter((name) => /\.caffemodel$/i.test(name));
  const [net, ...otherNets] = nets;
  const [model, ...otherModels] = models;
  if (net === undefined) throw badModel('expected one .prototxt file, found none');
  if (otherNets.length > 0)
    throw badModel(
      `expected one .prototxt file, found ${nets.length} (${nets.join(', ')}): leave only the net to serve`,
    );
  if (model === undefined && names.some((name) => /\.caffemodel\.h5$/i.test(name)))
    throw badModel(
      'the weights are a .caffemodel.h5 (HDF5), which is not read; save them in Caffe with snapshot_format: BINARYPROTO',
    );
  if (otherModels.length > 0)
    throw badModel(`expected one .caffemodel file, found ${models.length} (${models.join(', ')})`);
  const text = (await readLimited(directory, net, MAX_TEXT_BYTES)).toString('utf8');
  return {
    net: { name: net, text },
    weights:
      model === undefined
        ? undefined
        : { name: model, bytes: await readLimited(directory, model, MAX_WEIGHT_BYTES) },
  };
}

async function list(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => entry.name)
      .sort();
  } catch (error) {
    throw badModel(`cannot read the folder ${directory}`, { cause: error });
  }
}
