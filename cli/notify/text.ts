/** The line about notices in `status` and `notify list`. */
import type { NoticeFacts } from './notices.ts';

/** One line. */
export function noticesText({ waiting, outbox, givenUp, paused }: NoticeFacts): string {
  const stopped = paused.length > 0 ? `; paused: ${paused.join(', ')}` : '';
  const advice = givenUp > 0 || paused.length > 0 ? ' (cluster-serving notify resume)' : '';
  return `notices: ${waiting + outbox} wait, ${givenUp} given up${stopped}${advice}`;
}
