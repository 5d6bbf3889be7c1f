/** Which of several files of one model is meant: the one that was asked for, or the plain one beside its variants. */
import { basename, extname } from 'node:path';
import { badConfig, badModel } from '../../lib/contract/errors.ts';
import { shownNames } from '../../lib/registry/onnx-file.ts';

export interface Choice {
  /** The name of the file. */
  readonly file?: string | undefined;
  /** What its name says behind that of the plain model: `quantized` of model_quantized.onnx. */
  readonly variant?: string | undefined;
  /** The name of an ONNX file beside it that is to run before it. */
  readonly before?: string | undefined;
}

export interface Chosen<T> {
  readonly item: T;
  /** Says which one was taken, and how another one is. */
  readonly note?: string;
}

/**
 * Undefined where nothing makes one of them the obvious one.
 * @param pathOf with `/`
 * @throws bad_config for a file or variant that is not there
 */
export function chooseModel<T>(
  items: readonly T[],
  pathOf: (item: T) => string,
  { file, variant }: Choice,
): Chosen<T> | undefined {
  const shown = () => shownNames(items.map(pathOf));
  if (file !== undefined) {
    const wanted = file.replace(/^\.\//, '');
    const item =
      items.find((one) => pathOf(one) === wanted) ?? items.find((one) => basename(pathOf(one)) === wanted);
    if (item === undefined) throw badConfig(`--file ${file}: there is no such model; found ${shown()}`);
    return { item };
  }
  if (variant !== undefined) {
    const found = items.filter((one) => stemOf(pathOf(one)).endsWith(`_${variant}`));
    const [item] = found;
    if (item !== undefined && found.length === 1)
      return { item, note: `${pathOf(item)} was taken, the variant ${variant}` };
    throw badConfig(
      `--variant ${variant}: expected one model whose name ends in _${variant}; found ${shown()}`,
    );
  }
  const [only] = items;
  if (items.length === 1 && only !== undefined) return { item: only };
  const plain = items.find((one) =>
    items.every((other) => other === one || isVariant(pathOf(other), pathOf(one))),
  );
  if (plain === undefined) return undefined;
  const others = shownNames(items.filter((one) => one !== plain).map(pathOf));
  return {
    item: plain,
    note: `${pathOf(plain)} was taken, the plain one; --variant or --file chooses another: ${others}`,
  };
}

function stemOf(path: string): string {
  return basename(path, extname(path));
}

function isVariant(path: string, plain: string): boolean {
  return (
    extname(path) === extname(plain) &&
    /^[_.-]./.test(stemOf(path).slice(stemOf(plain).length)) &&
    stemOf(path).startsWith(stemOf(plain))
  );
}

/** @throws bad_model */
export function severalModels(folder: string, found: readonly string[], advice: string): never {
  throw badModel(
    `model directory ${folder}: expected one model, found ${found.length}: ${shownNames(found)}; ${advice}`,
  );
}
