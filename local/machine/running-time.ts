/**
 * The time in ms since 1970 as it was at the start of this process, and has run since: the wall clock may be set meanwhile, and
 * what lives for an hour is then to live for an hour all the same.
 */
export function runningTime(): number {
  return Math.floor(performance.timeOrigin + performance.now());
}
