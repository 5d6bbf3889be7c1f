/**
 * Prints the output of a command: text, or with --json one JSON document on stdout. An error is then printed twice:
 * as JSON on stdout for programs, as text on stderr for people.
 */
import type { ServingError } from '../lib/contract/errors.ts';

/** Documented in docs/reference/cli.md; scripts rely on them. */
export const EXIT = { ok: 0, failed: 1, wrongUse: 2, notRunning: 3, notReady: 4 } as const;

export interface Output {
  readonly json: boolean;
  /** The answer: `document` with --json, else `text`. */
  answer(document: unknown, text: string): void;
  /** A part of a long answer, unchanged. With --json the parts must form one document. */
  piece(text: string): void;
  /** Printed on stderr, for people. */
  note(text: string): void;
  /** Reports the error of a command. */
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
      // A defect of this program is printed with its stack.
      note(`error: ${error.code === 'internal' ? (error.stack ?? error.message) : error.message}`);
    },
  };
}

/** Writes a document with a list that may exceed memory, item by item. @param begin as `{"results":[` */
export function listDocument(output: Output, begin: string) {
  let separator = begin;
  return {
    add(item: unknown): void {
      output.piece(`${separator}${typeof item === 'string' ? item : JSON.stringify(item)}`);
      separator = ',';
    },
    /** @param rest the fields beside the list */
    end(rest: object): void {
      const text = JSON.stringify(rest).slice(1);
      output.piece(`${separator === begin ? begin : ''}]${text === '}' ? '' : ','}${text}\n`);
    },
  };
}
