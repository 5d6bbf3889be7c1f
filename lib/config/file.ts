/**
 * Reads the text of config.yaml, current or old, into a complete JobConfig and notes about old keys, or one error with
 * every problem. The old system silently ignored unknown keys, so a typo served with defaults for weeks; here it is
 * refused with the key that was probably meant. An empty value (`imageResize:`) means the default, as it always did.
 */

import { closeSync, openSync, readSync } from 'node:fs';
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import { decodeUtf8, utf8Problem } from '../codecs/utf8.ts';
import { asError, badConfig, ServingError } from '../contract/errors.ts';
import { present } from '../contract/present.ts';
import type { JobConfig } from './job.ts';
import { readJob } from './read.ts';
import { advice, brokenRules, type Finding } from './rules.ts';
import { SETTINGS } from './schema.ts';
import { gatherSettings, MAX_PROBLEMS, type Problem, type Setting } from './settings.ts';
import { blankHint, type Field, type Fields, isFields, kindOf, type Value } from './value.ts';

/** A config file. Refused with `bad_config`. */
const MAX_CONFIG_BYTES = 1024 * 1024;
// A real config has some hundred. 1 MiB of brackets would take yaml 8 seconds.
/** YAML tokens of a config file. Refused with `bad_config`. */
const MAX_TOKENS = 20_000;
/** YAML aliases of a config file; each may stand for a whole tree of others. Refused with `bad_config`. */
const MAX_ALIASES = 100;
/** Levels of a config file. Refused with `bad_config`. */
const MAX_DEPTH = 8;

export interface ConfigReading {
  readonly job: JobConfig;
  /** One line each: old keys that something else stands for here, and settings without effect. Never a value. */
  readonly notes: readonly string[];
}

/** @throws bad_config with every problem, one a line */
export function readConfig(path: string): ConfigReading {
  return readConfigText(textOf(path), path);
}

/**
 * Another YAML file, within the limits of a config.
 * @param example a line of such a file, for the message
 * @throws bad_config
 */
export function readYamlFile(path: string, example: string): Fields {
  return readYaml(textOf(path), path, example);
}

function textOf(path: string): string {
  let bytes: Uint8Array;
  try {
    bytes = readBytes(path);
  } catch (error) {
    throw badConfig(`config ${path} cannot be read: ${asError(error).message}`, { cause: error });
  }
  assertLength(bytes.length, path);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw badConfig(`${path}: ${utf8Problem(bytes)}`);
  return text;
}

/**
 * @param name what errors call the text, e.g. its path
 * @throws bad_config with every problem, one a line
 */
export function readConfigText(content: string, name: string): ConfigReading {
  assertLength(Buffer.byteLength(content), name);
  const { settings, notes, problems } = gatherSettings(readYaml(content, name), [...SETTINGS.keys()]);
  const { job, problems: wrongValues } = readJob(settings);
  if (problems.length + wrongValues.length > 0) throw refusal(name, [...problems, ...wrongValues]);
  const isSet = (path: string) => settings.has(path);
  const broken = brokenRules(job, isSet);
  if (broken.length > 0)
    throw refusal(
      name,
      broken.map((finding) => located(finding, settings)),
    );
  const advised = advice(job, isSet).map((finding) => {
    const { key, line } = present(settings.get(finding.path), `setting ${finding.path}`);
    return `${key} (line ${line}): ${finding.text}`;
  });
  return { job, notes: [...notes, ...advised] };
}

/** A pipe has no size to ask for beforehand, so one byte more than the limit is read from any file. */
function readBytes(path: string): Uint8Array {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(MAX_CONFIG_BYTES + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length < bytes.length; length += count) {
      count = readSync(file, bytes, length, bytes.length - length, null);
    }
    return bytes.subarray(0, length);
  } finally {
    closeSync(file);
  }
}

function assertLength(bytes: number, name: string): void {
  if (bytes <= MAX_CONFIG_BYTES) return;
  throw badConfig(`${name}: over the limit of ${MAX_CONFIG_BYTES} bytes`);
}

/** Under the key that the user wrote, where the setting is in the file at all. */
function located({ path, text }: Finding, settings: ReadonlyMap<string, Setting>): Problem {
  const { key = path, line = 0 } = settings.get(path) ?? {};
  return { line, text: `${key}: ${text}` };
}

function refusal(name: string, problems: readonly Problem[]): ServingError {
  const sorted = problems.toSorted((a, b) => a.line - b.line);
  const lines = sorted.slice(0, MAX_PROBLEMS).map(({ line, text }) => {
    return line === 0 ? `  ${text}` : `  line ${line}: ${text}`;
  });
  if (sorted.length > MAX_PROBLEMS) lines.push(`  and ${sorted.length - MAX_PROBLEMS} more`);
  return badConfig(`${name}:\n${lines.join('\n')}`);
}

/** @throws bad_config when the text is not one YAML document of keys with values */
function readYaml(content: string, name: string, example = 'modelPath: model'): Fields {
  const lines = new LineCounter();
  const wrong: Wrong = (what, start) => {
    const at = start === undefined ? '' : ` line ${lines.linePos(start).line}:`;
    return badConfig(`${name}:${at} ${what}`);
  };
  try {
    assertTokens(content, wrong);
    const document = parseDocument(content, {
      // Knows only texts, lists and maps.
      schema: 'failsafe',
      resolveKnownTags: false,
      // Duplicates are found by gatherSettings, in every spelling; yaml would compare each key with each.
      uniqueKeys: false,
      // yaml's own message shows the line, which may hold a password.
      prettyErrors: false,
      lineCounter: lines,
    });
    const [error] = document.errors;
    if (error) {
      const { code, message, pos } = error;
      throw wrong(yamlMessage(code, message) + blankHint(lineAt(content, pos[0])), pos[0]);
    }
    const root = new YamlReader(document, lines, wrong).value(document.contents, 0);
    if (root === null) return { fields: [] };
    if (isFields(root)) return root;
    const hint = typeof root === 'string' ? blankHint(root) : '';
    throw wrong(`expected keys with values, e.g. "${example}", got ${kindOf(root)}${hint}`);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw badConfig(`${name}: not YAML: ${asError(error).message}`, { cause: error });
  }
}

function lineAt(content: string, position: number): string {
  const end = content.indexOf('\n', position);
  return content.slice(content.lastIndexOf('\n', position - 1) + 1, end === -1 ? undefined : end);
}

function assertTokens(content: string, wrong: Wrong): void {
  let tokens = 0;
  for (const _ of new Lexer().lex(content)) {
    if (++tokens > MAX_TOKENS) throw wrong(`over the limit of ${MAX_TOKENS} YAML tokens`);
  }
}

/** yaml's words where they say what to do, ours for what people run into; never a piece of the file, a password maybe. */
function yamlMessage(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'a second YAML document starts here; a config is one';
  const isColonMissing = code === 'MULTILINE_IMPLICIT_KEY' || message.startsWith('Implicit map keys need');
  // The text after a colon may be a piece of the file.
  return `not YAML: ${isColonMissing ? 'a key without ":"' : message.split(': ')[0]}`;
}

/** @param start where in the text, in characters */
type Wrong = (what: string, start?: number) => ServingError;

/** Tags that say what is so anyway: YAML's plain types, and what servables.yaml calls its models. */
const HARMLESS_TAG =
  /^(tag:yaml\.org,2002:(str|int|float|bool|seq|map)|ClusterServingMetaData|InferenceModelMetaData)$/;

/** A YAML tree as our values. */
class YamlReader {
  readonly #document: Document;
  readonly #lines: LineCounter;
  readonly #wrong: Wrong;
  #aliases = 0;

  constructor(document: Document, lines: LineCounter, wrong: Wrong) {
    this.#document = document;
    this.#lines = lines;
    this.#wrong = wrong;
  }

  /** @param node of yaml; null where there is nothing */
  value(node: unknown, depth: number): Value {
    if (depth > MAX_DEPTH) throw this.#wrong(`nested deeper than ${MAX_DEPTH} levels`);
    if (isAlias(node)) {
      if (++this.#aliases > MAX_ALIASES) throw this.#wrong(`over the limit of ${MAX_ALIASES} YAML aliases`);
      const target = node.resolve(this.#document);
      if (target === undefined) throw this.#wrong(`an alias of nothing; ${quoted('*')}`, startOf(node));
      return this.value(target, depth + 1);
    }
    if (isScalar(node)) return this.#text(node);
    if (isMap(node)) return this.#fields(node, depth);
    if (!isSeq(node)) return null;
    this.#checkTag(node);
    return node.items.map((item) => this.value(item, depth + 1));
  }

  #text(node: Scalar): Value {
    this.#checkTag(node);
    const text = String(node.value);
    // A quoted "null" is a text.
    return node.type === 'PLAIN' && /^(|~|null|Null|NULL)$/.test(text) ? null : text;
  }

  #fields(node: YAMLMap, depth: number): Fields {
    this.#checkTag(node);
    return {
      fields: node.items.map(({ key, value }): Field => {
        const word = isScalar(key) ? this.#text(key) : null;
        if (!isScalar(key) || typeof word !== 'string') throw this.#wrong('a key is one word', startOf(node));
        const { line } = this.#lines.linePos(startOf(key));
        return { key: word, line, value: this.value(value, depth + 1) };
      }),
    };
  }

  #checkTag(node: Node): void {
    if (node.tag === undefined || HARMLESS_TAG.test(node.tag)) return;
    throw this.#wrong(`a tag that means nothing here; ${quoted('!')}`, startOf(node));
  }
}

/** A password may start so. */
function quoted(start: string): string {
  return `a text that starts with ${start} needs quotes`;
}

function startOf(node: Node): number {
  return node.range?.[0] ?? 0;
}
