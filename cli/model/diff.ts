/** `model diff`: what changes for clients from one version of a model to another. */
import { wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf } from '../service.ts';
import { type OpenPlace, type PlaceValues, withPlace } from './place.ts';
import { type DiffSettings, isFolder, SERVING, withSide } from './side.ts';

/**
 * One argument is compared with the version that serves. Each is a directory, the name of a version, or `serving`.
 * @returns exit code 1 when clients would get wrong results
 */
export async function diff(
  args: readonly string[],
  values: PlaceValues,
  settings: DiffSettings,
  output: Output,
): Promise<number> {
  const [first, second, surplus] = args;
  if (first === undefined) throw wrongUse('model diff: which directory or version?');
  if (surplus !== undefined) throw wrongUse(`model diff: unexpected ${JSON.stringify(surplus)}`);
  const [before, after] = second === undefined ? [SERVING, first] : [first, second];
  const given = { ...settings, dataDir: dataDirOf(values) };
  if (isFolder(before) && isFolder(after)) return compare(undefined, [before, after], given, output);
  return withPlace(values, output, (place) => compare(place, [before, after], given, output));
}

interface Settings extends DiffSettings {
  readonly dataDir: string;
}

async function compare(
  place: OpenPlace | undefined,
  [before, after]: readonly [string, string],
  settings: Settings,
  output: Output,
): Promise<number> {
  const [{ diffVersions }, { reportText }, { newModelProcess }] = await Promise.all([
    import('../../release/diff/diff.ts'),
    import('../../release/diff/report.ts'),
    import('../../release/model-process.ts'),
  ]);
  const process = newModelProcess();
  return interruptible('the comparison', output, (signal) => {
    const given = { ...settings, signal, process };
    return withSide(place, before, given, output, (first) =>
      withSide(place, after, given, output, async (second) => {
        const report = await diffVersions(first, second, given);
        output.answer({ from: before, to: after, ...report }, `${before} -> ${after}\n${reportText(report)}`);
        return report.breaks.length === 0 ? EXIT.ok : EXIT.failed;
      }),
    );
  }).finally(() => process.close());
}
