/** `model import --with-python`: the owner's own exporter runs first, after a question where the file is code. */
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import type { ImportOptions } from '../../release/import.ts';
import { confirmed } from '../confirm.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';

interface Options extends Pick<ImportOptions, 'reference' | 'signal'> {
  readonly 'with-python'?: boolean | undefined;
  /** Do not ask. */
  readonly yes?: boolean | undefined;
}

type Run = (directory: string, more: Pick<ImportOptions, 'notes' | 'reference'>) => Promise<number>;

/** @throws bad_config without a terminal to ask at; bad_model with the commands to run by hand where Python cannot be had */
export async function exportFirst(
  directory: string,
  { 'with-python': isAsked = false, yes = false, reference, signal }: Options,
  output: Output,
  run: Run,
): Promise<number> {
  if (!isAsked) return run(directory, { reference }).catch((error: unknown) => withHint(directory, error));
  const { exportable, withExport } = await import('../../onnx-import/index.ts');
  const found = await exportable(directory);
  const { file, packages, recipe } = found;
  const risk = `loads ${file} (${recipe.title}) with Python, which runs whatever is in it, as you`;
  if (recipe.isCode && !yes && !(await confirmed(risk))) {
    output.note('nothing was run');
    return EXIT.failed;
  }
  output.note(`note: ${packages.join(' ')} are installed into a temporary folder, and removed afterwards`);
  const progress = showProgress(output.json);
  const onStage = (label: string) => progress.update({ label });
  const options = { python: variables['PYTHON'], signal, onStage };
  return withExport(found, options, async (made) => {
    progress.end();
    output.note(`note: ${made.note}`);
    return run(made.directory, { notes: [made.note], reference: reference ?? made.reference });
  }).finally(progress.end);
}

/** Names the option where it would help. @throws always */
async function withHint(directory: string, error: unknown): Promise<never> {
  const known = ServingError.from(error);
  if (known.code !== 'bad_model') throw error;
  const { exportable } = await import('../../onnx-import/index.ts');
  const found = await exportable(directory).catch(() => undefined);
  if (!found) throw error;
  throw badModel(
    `${known.message}; or pass --with-python, which runs the exporter here${found.recipe.isCode ? ' (it loads the file, which is code)' : ''}`,
    { cause: error },
  );
}
