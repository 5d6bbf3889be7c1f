/**
 * Where a version holds its golden requests. Functions never read them: they are in the manifest of a version and not in
 * the pointer, so a cold start does not download them.
 */
export const GOLDEN_FOLDER = 'golden';

export function isGolden(path: string): boolean {
  return path.startsWith(`${GOLDEN_FOLDER}/`);
}
