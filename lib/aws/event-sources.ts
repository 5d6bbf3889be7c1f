/** Reads and sets the maximum concurrency of an event source of Lambda, without the AWS SDK. */
import { type AwsPlace, callAws, parsed, reasonOf } from './call.ts';

const LIMIT_MS = 5_000;

function pathOf(id: string): string {
  return `/2015-03-31/event-source-mappings/${encodeURIComponent(id)}`;
}

/** @param id of the mapping. @returns undefined for one without a limit. @throws an error with the reason that AWS gives */
export async function concurrencyOf(place: AwsPlace, id: string): Promise<number | undefined> {
  const answer = await callAws(place, {
    service: 'lambda',
    method: 'GET',
    path: pathOf(id),
    headers: {},
    body: '',
    limitMs: LIMIT_MS,
  });
  if (answer.status !== 200) throw new Error(`event source ${id}: ${reasonOf(answer)}`);
  const { ScalingConfig }: { readonly ScalingConfig?: { readonly MaximumConcurrency?: unknown } | null } =
    parsed(answer.text);
  const most = ScalingConfig?.MaximumConcurrency;
  return typeof most === 'number' ? most : undefined;
}

/** Takes effect within a minute or so. @throws an error with the reason that AWS gives */
export async function setConcurrency(place: AwsPlace, id: string, most: number): Promise<void> {
  const answer = await callAws(place, {
    service: 'lambda',
    method: 'PUT',
    path: pathOf(id),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ScalingConfig: { MaximumConcurrency: most } }),
    limitMs: LIMIT_MS,
  });
  if (answer.status < 200 || answer.status > 299) throw new Error(`event source ${id}: ${reasonOf(answer)}`);
}
