/**
 * The project speaks the field's language (docs/reference/glossary.md). These words of its own were replaced; each says by what. The
 * list holds identifiers and phrases, not plain English words, which are right in many places.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READ = new Set(['.ts', '.mjs', '.cjs', '.md', '.yml', '.yaml']);
/** This list, and what was renamed. */
const LEFT_OUT = /^(test\/docs\/words\.test\.ts$|CHANGELOG\.md$)/;

const REPLACED: readonly (readonly [word: RegExp, instead: string])[] = [
  [/[pP]assport/, 'import report, import-report.json'],
  [/\bparks?\b|\bparked\b|Parked[A-Z]|\bparked[A-Z]/, 'archive, dead letter, dead-lettered'],
  [/\b(ran|runs?|out) out of tries\b|\btries: \d|\breadonly tries: /, 'delivered too often, attempts'],
  [/\bout_of_tries\b/, 'max_receives_exceeded'],
  [/\b[fF]ence[ds]?\b|\bFence[A-Z]|behind (a|the|its) fence/, 'isolated runner, runIsolated'],
  [/\bsuspects?\b|runSuspects/, 'redelivered records'],
  [/\bisGuilt\b|\bguilty\b/, 'isRecordFault; the failing record'],
  [/\bmisfit\b/, 'mismatch'],
  [/\bkeepTime\b|\bRunTime\b|\brunTime\b/, 'Deadline, deadlineCheck'],
  [/\basDeclared\b/, 'exactSignature'],
  [/\bputBack\b|\bResultTaker\b|\bheldKey\b/, 'release, ResultLeases, leaseKey'],
  [/\b[hH]andover\b|\bHanded[A-Z]/, 'replaceResult, Replacement'],
  [/\b(Done|Running|Start)News\b/, 'ResultNotifications, RunningReports, StartReport'],
  [/\bpatience\b/, 'wait deadline'],
  [/\btoFields\b/, 'serializeResult'],
  [/\bbury\b|\bburied\b/, 'deadLetterRecord, dead-lettered'],
  [
    /\blive(Model|Results|Connection|Limiter|Reporter|Queue|Payloads|Accept|Predict|Predictions|Measuring)\b/,
    'compose, createX',
  ],
  [/\bModelHost\b|\btryModel\b/, 'ModelManager'],
  [/(?<!torch\.)\bflip\(|\bletServe\b|\b[fF]lips? (is|of|that|whose)\b/, 'promote'],
  [/\b(in|run|ask|is)Portions?|\bportion(s|Limit|Ms)?\b(?! of a| to)/, 'time slice'],
  [
    /\bassertExpansion\b|\bExpansion\b|\b[a-z]+Expansion\b/,
    'assertDecodedSize, DecodedSize, DecodedSizeBudget',
  ],
  [/\b[rR]unningNotices\b|\bTELL_[A-Z]|\btellIdle\b|#tell\b|\bTold\b</, 'RunningReports, REPORT_…, report'],
  [/\b[dD]oors?\b|\b[a-z]+Doors?\b/, 'endpoint'],
  [/\b[sS]trangers?\b/, 'untrusted caller, unknown, other'],
  [/\b[wW]hoever\b/, 'say who'],
  [/\b(is|are) told\b(?! (apart|not to|from))/, 'reported, logged, noted'],
  [/\bownPlaces\b/, 'ownSlots'],
  [/\bnobody's\b/, 'say who or what, or that it is ignored'],
  [/in nobody's way/, 'never blocks'],
  [
    /^\s*(\/\*\*|\*|\/\/|#) (.*[.!?] )?(In|Out|Trap): /,
    'what the file does and what would surprise a reader, in sentences',
  ],
];

/** Forms of another grammar. onnx-import is not yet rewritten. */
const FORMS: readonly (readonly [word: RegExp, instead: string])[] = [
  [/^\s*(\/\*\*|\/\/|#|"""|--) ?(Of|Whether|What) /, 'a noun, a verb or "True if" first'],
  [
    /(?<![Tt]here )\b(is|are|was|were) no (?!(longer|more|other|further|less|fewer|better|deeper|finer|such)\b)[a-z]/,
    'is not a',
  ],
  [/\b(says? nothing|becomes? of|became of|goes around|mended)\b/, 'what happens, in one verb'],
  [/\bin place of\b/, 'instead of'],
  [/\banew\b/, 'again'],
];
const KEEPS_FORMS = /^(test\/)?onnx-import\//;

/** @returns each place with a replaced word, as `file:line: word (say: …)` */
function placesIn(file: string, text: string): string[] {
  const list = KEEPS_FORMS.test(file) ? REPLACED : [...REPLACED, ...FORMS];
  return text.split('\n').flatMap((line, i) =>
    list.flatMap(([word, instead]) => {
      const found = word.exec(line)?.[0];
      return found === undefined ? [] : [`${file}:${i + 1}: ${found} (say: ${instead})`];
    }),
  );
}

test('no file uses a word that the glossary has replaced', async () => {
  const { stdout } = await promisify(execFile)('git', ['ls-files', '-z'], { cwd: ROOT, maxBuffer: 2 ** 24 });
  const files = stdout.split('\0').filter((file) => READ.has(extname(file)) && !LEFT_OUT.test(file));
  assert.ok(files.length > 500);
  const texts = await Promise.all(
    files.map(async (file) => [file, await readFile(`${ROOT}/${file}`, 'utf8').catch(() => '')] as const),
  );
  assert.deepEqual(
    texts.flatMap(([file, text]) => placesIn(file, text)),
    [],
  );
});

test('a planted word is found, with its place and its replacement', () => {
  assert.deepEqual(placesIn('lib/a.ts', 'const x = 1;\nconst fence = keepTime();'), [
    'lib/a.ts:2: fence (say: isolated runner, runIsolated)',
    'lib/a.ts:2: keepTime (say: Deadline, deadlineCheck)',
  ]);
});

test('a header that fills in a form is found at the start of a comment and of a sentence in it, and other text is not', () => {
  const code = [
    '/** In: nodes. */',
    ' * Planes. Out: a tensor.',
    '  // Trap: none',
    '# Trap: none',
    '/** In. Out: */',
  ];
  const found = code.map((line) => placesIn('lib/a.ts', line).length);
  assert.deepEqual(
    [found, placesIn('lib/a.ts', ' * Signs In: yes; const Out: string')],
    [[1, 1, 1, 1, 1], []],
  );
});

test('a form of another grammar is found, but not in onnx-import', () => {
  const code = [
    '/** Of the model. */',
    '// Whether it runs',
    "throw new Error('it is no list');",
    '# used in place of it',
  ];
  const count = (file: string) => code.map((line) => placesIn(file, line).length);
  assert.deepEqual(
    [count('lib/a.ts'), count('onnx-import/a.ts')],
    [
      [1, 1, 1, 1],
      [0, 0, 0, 0],
    ],
  );
  assert.deepEqual(placesIn('lib/a.ts', '/** True if there is no model, or it is no longer open. */'), []);
});
