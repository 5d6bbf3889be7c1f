/**
 * In: what a command has to say. Out: text for a person, or with --json one JSON document on stdout and nothing else.
 * Trap: an error is told twice with --json: as JSON on stdout for the program, as text on stderr for its reader.
 */
import type { ServingError } from '../lib/contract/errors.ts';

/** Documented in docs/cli.md; scripts rely on them. */
export const EXIT = { ok: 0, failed: 1, wrongUse: 2, notRunning: 3, notReady: 4 } as const;

export interface Output {
  readonly json: boolean;
  /** The answer: `document` with --json, else `text`. */
  answer(document: unknown, text: string): void;
  /** A piece of a long answer, as it is; the command sees to it that --json pieces make one document. */
  piece(text: string): void;
  /** For the reader, beside the answer. */
  note(text: string): void;
  /** Why there is no answer. */
  failure(error: ServingError): void;
}

export function openOutput(json: boolean): Output {
  const out = (text: string) => void process.stdout.write(text);
  const note = (text: string) => void process.stderr.write(`${text}\n`);
  return {
    json,
    answer: (document, text) => out(`${json ? JSON.stringify(document) : text}\n`),
    piece: out,
    note,
    failure: (error) => {
      if (json) out(`${JSON.stringify({ error: error.message, code: error.code })}\n`);
      // A defect of ours is told whole.
      note(`error: ${error.code === 'internal' ? (error.stack ?? error.message) : error.message}`);
    },
  };
}
