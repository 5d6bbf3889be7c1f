/**
 * Refuses a model whose folder says how its inputs are made in a way that the service does not follow: its answers would look
 * right and be wrong. Only a field with an effect on the answer is refused. `import.ignore` names files whose advice the
 * clients follow themselves. Advice on pictures is applied instead (onnx-import/vision).
 */
import type { IgnoredFile } from '../lib/config/import-values.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { badModel } from '../lib/contract/errors.ts';
import {
  besideReader,
  type Fields,
  type Found,
  fieldsOf,
  folderImage,
  SENTENCES,
} from '../onnx-import/index.ts';

type Settings = Pick<JobConfig, 'import'>;

interface Unapplied {
  /** The field, with what it asks for. */
  readonly field: string;
  readonly advice: string;
}

type Reader = (fields: Fields) => readonly Unapplied[];

const READERS: readonly (readonly [IgnoredFile, Reader])[] = [
  ['preprocessor_config.json', audio],
  ['processor_config.json', (fields) => audio(fieldsOf(fields['feature_extractor']) ?? {})],
  [SENTENCES, sentences],
];

/**
 * @param directory the folder of the model; a folder `onnx/` belongs to the one above it
 * @param found what an import found there
 * @returns notes about ignored files, for the user
 * @throws bad_model naming each file and field, with what to do
 */
export async function assertApplied(
  directory: string,
  { import: { ignore = [] } }: Settings,
  { isText = false, beside = besideReader(directory) }: Partial<Pick<Found, 'isText' | 'beside'>> = {},
): Promise<readonly string[]> {
  const notes: string[] = [];
  const refused: string[] = [];
  for (const [name, read] of READERS) {
    // A model of texts applies it.
    if (isText && name === SENTENCES) continue;
    const fields = await beside(name);
    const found = fields ? read(fields) : [];
    if (found.length === 0) continue;
    const list = found.map(({ field, advice }) => `${field} (${advice})`).join('; ');
    if (ignore.includes(name)) notes.push(`${name} is ignored, as import.ignore says: ${list}`);
    else refused.push(`${name} says how inputs are made, and the service does not apply ${list}`);
  }
  const pictures = ignore.length > 0 ? await folderImage(beside) : undefined;
  if (pictures && ignore.includes(pictures.source))
    notes.push(
      `${pictures.source} is ignored, as import.ignore says: pictures are prepared as config.yaml says`,
    );
  if (refused.length === 0) return notes;
  const names = refused.map((line) => line.split(' ', 1)[0]).join(', ');
  throw badModel(
    `${directory}: ${refused.join('; ')}. If the clients do it themselves, put import: {ignore: [${names}]} into config.yaml`,
  );
}

/** The service takes no audio: clients send features, of which only the scaling is easily forgotten. */
function audio(fields: Fields): readonly Unapplied[] {
  const isAudio = fields['sampling_rate'] !== undefined || fields['feature_size'] !== undefined;
  if (!isAudio || fields['do_normalize'] !== true) return [];
  return [
    { field: 'do_normalize', advice: 'the service takes no audio: scale each record before it is sent' },
  ];
}

function sentences(fields: Fields): readonly Unapplied[] {
  const { prompts, default_prompt_name: name, truncate_dim: dimensions } = fields;
  const prompt = typeof name === 'string' ? fieldsOf(prompts)?.[name] : undefined;
  const found: Unapplied[] = [];
  if (typeof name === 'string' && prompt !== '') {
    const advice =
      typeof prompt === 'string'
        ? `put ${JSON.stringify(prompt)} in front of each text before it is sent`
        : 'prompts has no text of this name';
    found.push({ field: `default_prompt_name ${JSON.stringify(name)}`, advice });
  }
  if (typeof dimensions === 'number')
    found.push({ field: `truncate_dim ${dimensions}`, advice: 'cut vectors after they came' });
  return found;
}
