/**
 * Prints what a command has to say: text, or with --json one JSON document on stdout and nothing else. An error is then
 * printed twice: as JSON on stdout for the program, as text on stderr for its reader.
 */
import type { ServingError } from '../lib/contract/errors.ts';

/** Documented in docs/reference/cli.md; scripts rely on them. */
export const EXIT = { ok: 0, failed: 1, wrongUse: 2, notRunning: 3, notReady: 4 } as const;

export interface Output {
  readonly json: boolean;
  /** The answer: `document` with --json, else `text`. */
  answer(document: unknown, text: string): void;
  /** A part of a long answer, as it is; with --json the command makes sure that the parts form one document. */
  piece(text: string): void;
  /** For the reader, on stderr. */
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
      // A defect of this program is printed with its stack.
      note(`error: ${error.code === 'internal' ? (error.stack ?? error.message) : error.message}`);
    },
  };
}

/** Writes a document whose list may not fit into memory, item by item. @param begin as `{"results":[` */
export function listDocument(output: Output, begin: string) {
  let separator = begin;
  return {
    add(item: unknown): void {
      output.piece(`${separator}${typeof item === 'string' ? item : JSON.stringify(item)}`);
      separator = ',';
    },
    /** @param rest what stands beside the list */
    end(rest: object): void {
      const text = JSON.stringify(rest).slice(1);
      output.piece(`${separator === begin ? begin : ''}]${text === '}' ? '' : ','}${text}\n`);
    },
  };
}
