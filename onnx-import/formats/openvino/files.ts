/** Reads the two files of an OpenVINO model. A model without constants may come without the second. */
import { badModel } from '../../../lib/contract/errors.ts';
import { readLimited } from '../../files/read-limited.ts';

/** The largest we know, of a language model, has 10 MB. */
const MAX_XML_BYTES = 64 * 1024 * 1024;
/** One Buffer of Node holds no more. */
const MAX_WEIGHT_BYTES = 2 ** 32;

export interface IrFiles {
  readonly xml: { readonly name: string; readonly text: string };
  readonly weights: { readonly name: string; readonly bytes: Uint8Array } | undefined;
}

/** @throws bad_model naming a file that is missing or too large */
export async function readFiles(directory: string, files: readonly string[]): Promise<IrFiles> {
  const xml = files.find((name) => /\.xml$/i.test(name));
  const bin = files.find((name) => /\.bin$/i.test(name));
  if (xml === undefined) throw badModel('expected one .xml file, found none');
  return {
    xml: { name: xml, text: (await readLimited(directory, xml, MAX_XML_BYTES)).toString('utf8') },
    weights:
      bin === undefined
        ? undefined
        : { name: bin, bytes: await readLimited(directory, bin, MAX_WEIGHT_BYTES) },
  };
}
