/** The actions of `model` on the versions of a place. */
import type { JobConfig } from '../../lib/config/job.ts';
import type { Output } from '../output.ts';
import type { PlaceAction } from './options.ts';
import type { OpenPlace } from './place.ts';
import { promote, showTrial } from './trial.ts';
import { list, prune, rollback } from './versions.ts';

interface PlaceActionValues {
  readonly argument: string | undefined;
  /** How many versions a prune keeps. */
  readonly keep: number;
  readonly yes?: boolean | undefined;
  readonly end?: boolean | undefined;
  /** Reads the settings. */
  readonly job: () => Promise<JobConfig>;
}

export function ofPlace(
  action: PlaceAction,
  place: OpenPlace,
  { argument, keep, yes = false, end = false, job }: PlaceActionValues,
  output: Output,
): Promise<number> {
  switch (action) {
    case 'list':
      return list(place, output);
    case 'trial':
      return showTrial(place, end, output);
    case 'promote':
      return promote(place, job, output);
    case 'rollback':
      return rollback(place, argument, job, output);
    default:
      return prune(place, keep, yes, output);
  }
}
