/** The lines about notices in `status` and `notify list`. */
import type { NoticeFacts } from '../../console/api.ts';

/** A line for all, and one for each target that something waits for, was given up of, or that is paused. */
export function noticesText({ waiting, outbox, givenUp, paused, targets }: NoticeFacts): string {
  const advice = givenUp > 0 || paused.length > 0 ? ' (cluster-serving notify resume)' : '';
  const lines = targets.map(({ name, ...target }) => {
    const facts = [
      target.isPaused ? 'paused' : '',
      target.waiting > 0 ? `${target.waiting} wait` : '',
      target.givenUp > 0 ? `${target.givenUp} given up${target.reason ? `: ${target.reason}` : ''}` : '',
    ];
    return `  ${name}: ${facts.filter((fact) => fact !== '').join(', ')}`;
  });
  return [`notices: ${waiting + outbox} wait, ${givenUp} given up${advice}`, ...lines].join('\n');
}
