/** Draws bugs by chance: the same ones for the same seed and sources. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pick, type Random, seeded } from '../../support/faults/seeds.ts';
import { linesOf, type Mutant } from '../mutant.ts';
import { placesInLua } from './lua.ts';
import type { Place } from './place.ts';
import { placesInPython } from './python.ts';
import { placesInTypeScript } from './typescript.ts';
import { placesInYml } from './yml.ts';

interface Part {
  readonly name: string;
  readonly files: readonly string[];
  /** Of all bugs, the share that falls on it. */
  readonly share: number;
}

/** The path from event to result has the most weight; the converter is a third of the house and has less than that. */
const PARTS: readonly Part[] = [
  { name: 'functions', files: ['functions/*.ts'], share: 0.07 },
  { name: 'lib', files: ['lib/*.ts'], share: 0.36 },
  { name: 'local', files: ['local/*.ts'], share: 0.14 },
  { name: 'sdk', files: ['sdk/*.ts'], share: 0.12 },
  { name: 'onnx-import', files: ['onnx-import/*.ts', 'release/*.ts'], share: 0.16 },
  { name: 'python', files: ['python/*.py'], share: 0.08 },
  { name: 'lua', files: ['lib/*.lua'], share: 0.04 },
  { name: 'yml', files: ['serverless.yml', 'infra/stack/*.yml'], share: 0.03 },
];

/** Written by a script: its bugs are those of the script. */
const GENERATED = /\/wasm\.ts$|\bgenerated\b/;

export interface Drawn extends Mutant {
  readonly part: string;
  readonly kind: Place['kind'];
  readonly line: number;
}

/**
 * Bugs in an order that the seed gives, no two alike. Kinds are drawn alike within a part, whatever their number: dropped
 * awaits are few, and harder to notice than the many swapped arguments. A change of the sources changes what is drawn there
 * and nothing else, so that runs before and after it can be compared.
 * @param root the checkout
 * @param all default those of the product
 */
export function* draw(root: string, seed: number, all: readonly Part[] = PARTS): Generator<Drawn> {
  const random = seeded(seed);
  const parts = all.map((part) => ({ ...part, kinds: byKind(inOrder(placesOf(root, part.files), seed)) }));
  while (parts.some(({ kinds }) => kinds.some(({ places }) => places.length > 0))) {
    const part = weighted(parts, random);
    const left = part.kinds.filter(({ places }) => places.length > 0);
    if (left.length === 0) continue;
    const { kind, places } = pick(random, left);
    const { file, text, place } = places.pop() as Placed;
    const line = text.slice(0, place.start).split('\n').length;
    yield { part: part.name, file, line, ...place, kind };
  }
}

interface Placed {
  readonly file: string;
  readonly text: string;
  readonly place: Place;
}

function placesOf(root: string, patterns: readonly string[]): Placed[] {
  const listed = execFileSync('git', ['ls-files', '-z', ...patterns], { cwd: root, encoding: 'utf8' });
  const files = listed.split('\0').filter((file) => file !== '' && !GENERATED.test(file));
  const texts = files.map((file) => readFileSync(join(root, file), 'utf8'));
  const inPython = files.filter((file) => file.endsWith('.py'));
  const ofPython = placesInPython(inPython.map((file) => texts[files.indexOf(file)] as string));
  return files.flatMap((file, index) => {
    const text = texts[index] as string;
    const places = file.endsWith('.py')
      ? (ofPython[inPython.indexOf(file)] as Place[])
      : file.endsWith('.lua')
        ? placesInLua(text)
        : file.endsWith('.yml')
          ? placesInYml(text)
          : placesInTypeScript(file, text);
    return places.map((place) => ({ file, text, place }));
  });
}

const KINDS: readonly Place['kind'][] = [
  'await',
  'call',
  'compare',
  'condition',
  'constant',
  'operator',
  'swap',
];

const byKind = (placed: readonly Placed[]) =>
  KINDS.map((kind) => ({ kind, places: placed.filter(({ place }) => place.kind === kind) }));

/** A place keeps its rank while its line stays as it is. */
function inOrder(placed: readonly Placed[], seed: number): Placed[] {
  const ranks = new Map<Placed, number>();
  const seen = new Map<string, number>();
  for (const one of placed) {
    const { file, text, place } = one;
    const { line } = linesOf(text, place);
    const name = `${seed} ${file} ${line} ${text.slice(place.start, place.end)} ${place.bug}`;
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    ranks.set(one, rankOf(`${name} ${before}`));
  }
  return [...placed].sort((a, b) => (ranks.get(a) as number) - (ranks.get(b) as number));
}

/** FNV-1a, and the last mixing step of MurmurHash3, without which neighbours would keep together. */
function rankOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function weighted<T extends Part>(parts: readonly T[], random: Random): T {
  let left = random() * parts.reduce((sum, { share }) => sum + share, 0);
  return parts.find(({ share }) => (left -= share) < 0) ?? (parts[0] as T);
}
