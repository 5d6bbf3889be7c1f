/** Prints the changes of a new version, for `model push` and an upload of `model import`. */
import type { Published } from '../../lib/registry/publish.ts';
import { type DiffReport, reportText } from '../../release/diff/report.ts';
import { replayText } from '../../release/replay/report.ts';
import type { JudgedReplay } from './replay-gate.ts';

export interface Changes extends Pick<Published, 'version' | 'before'> {
  readonly diff: DiffReport | undefined;
  /** One that passes, or was accepted. */
  readonly replay: JudgedReplay | undefined;
}

export function changeLines({ version, before, diff, replay }: Changes): string[] {
  return [
    ...(diff && before !== version ? ['', `changes since version ${before}:`, reportText(diff)] : []),
    ...(replay
      ? ['', `captures of version ${before} on this one:`, replayText(replay, replay.problems)]
      : []),
  ];
}
