/** A history as text: every line of it, which a replay has to repeat byte for byte, and the story of what went wrong. */
import type { History, Line } from '../history.ts';
import type { Plan } from '../steps.ts';
import type { Violation } from '../violation.ts';
import type { Simulated } from '../world.ts';

function timeOf(ms: number): string {
  const [hours, minutes, seconds] = [
    Math.floor(ms / 3_600_000),
    Math.floor(ms / 60_000) % 60,
    (ms % 60_000) / 1000,
  ];
  return `${hours}:${String(minutes).padStart(2, '0')}:${seconds.toFixed(3).padStart(6, '0')}`;
}

const lineText = ({ atMs, text }: Line) => `${timeOf(atMs)}  ${text}`;

/** Everything that happened, and how many events it took. */
export function logOf({ history, violations, events, virtualMs }: Simulated): string {
  const found = violations.map(({ invariant, text }) => `broken: ${invariant}: ${text}`);
  return [...history.lines.map(lineText), ...found, `${events} events in ${virtualMs} ms`].join('\n');
}

/** The lines that a violation is about. */
export function linesAbout({ lines }: History, { about }: Violation): Line[] {
  return lines.filter(
    (line) => line.about === undefined || about.length === 0 || line.about.some((uri) => about.includes(uri)),
  );
}

/** In plain sentences. */
export function storyOf(
  { seed, steps, settings }: Plan,
  { history, violations }: Simulated,
  first = violations[0],
): string {
  if (!first) return `Seed ${seed}: nothing went wrong.`;
  const { timeoutSeconds, environments, refreshSeconds } = settings;
  return [
    `Seed ${seed}, ${steps.length} ${steps.length === 1 ? 'step' : 'steps'}: "${first.invariant}" does not hold. ${capital(first.text)}.`,
    `The batch function has ${timeoutSeconds} s and up to ${environments} environments, and looks for a new model every ${refreshSeconds} s.`,
    '',
    ...linesAbout(history, first).map(lineText),
  ].join('\n');
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
