/**
 * In: the archives beside a template. Out: what Lambda would refuse, or could not start.
 * Trap: a library for another processor fails in INIT, at the first request after a deployment that went well.
 */
import { functionsOf, MODEL_FUNCTIONS } from './deployment.ts';
import { archiveRule, counted, type Finding, listed, megabytes, templateRule } from './rule.ts';
import { textOf } from './template.ts';

const DIRECT_BYTES = 50 * 1024 * 1024;
/** What we keep to: the functions with onnxruntime come to 18.4 MB. */
const TARGET_BYTES = 20 * 1024 * 1024;
const UNZIPPED_BYTES = 250 * 1024 * 1024;

const zipSize = archiveRule({
  id: 'package-zip-size',
  topic: 'Package',
  looksAt: 'size of every zip',
  why: 'Lambda takes 50 MB directly, and every cold start of a new environment fetches the archive; ours keep below 20 MB.',
  fix: 'look for what came into the bundle (infra/build/function-folder.ts says which files go along)',
  check: (archives) =>
    [...archives].flatMap(([name, { bytes }]): Finding[] => {
      if (bytes <= TARGET_BYTES) return [];
      const severity = bytes > DIRECT_BYTES ? 'error' : 'warning';
      const expected = `at most ${megabytes(TARGET_BYTES)}; ${megabytes(DIRECT_BYTES)} is what Lambda takes directly`;
      return [{ severity, where: `${name}.zip`, found: megabytes(bytes), expected }];
    }),
});

const unzippedSize = archiveRule({
  id: 'package-unzipped-size',
  topic: 'Package',
  looksAt: 'size of every archive when unzipped',
  why: 'Lambda refuses a function over 250 MB unzipped; onnxruntime-node alone unpacks to 294 MB when all of it goes along.',
  fix: 'infra/build/function-folder.ts: the files of onnxruntime-node that go along (46 MB)',
  check: (archives) =>
    [...archives]
      .filter(([, { unzippedBytes }]) => unzippedBytes > UNZIPPED_BYTES)
      .map(([name, { unzippedBytes }]) => ({
        severity: 'error',
        where: `${name}.zip`,
        found: megabytes(unzippedBytes),
        expected: `at most ${megabytes(UNZIPPED_BYTES)}`,
      })),
});

const missing = archiveRule({
  id: 'package-missing',
  topic: 'Package',
  looksAt: 'an archive for every function',
  why: 'The deployment uploads the archives beside the template; a function without one cannot be made.',
  fix: 'npx serverless package',
  check: (archives, template) =>
    functionsOf(template)
      .filter(({ name, properties }) => properties['PackageType'] !== 'Image' && !archives.has(name))
      .map(({ name }) => ({
        severity: 'error',
        where: name,
        found: `no ${name}.zip beside the template`,
        expected: 'one archive for every function',
      })),
});

const handler = archiveRule({
  id: 'package-handler',
  topic: 'Package',
  looksAt: 'the file that Handler names, in the archive',
  why: 'Lambda answers Runtime.ImportModuleError to every request when the file is not there.',
  fix: 'handler and package.patterns of the function in serverless.yml',
  check: (archives, template) =>
    functionsOf(template).flatMap(({ name, properties }): Finding[] => {
      const archive = archives.get(name);
      const file = textOf(properties['Handler']).replace(/\.[^./]+$/, '');
      if (!archive || file === '') return [];
      const endings = ['.mjs', '.js', '.cjs'];
      if (endings.some((ending) => archive.names.has(`${file}${ending}`))) return [];
      const found = `Handler ${textOf(properties['Handler'])}, and ${counted(archive.names.size, 'other file')} in ${name}.zip`;
      return [{ severity: 'error', where: name, found, expected: `${file}.mjs in the archive` }];
    }),
});

const runtimeMissing = archiveRule({
  id: 'package-onnxruntime',
  topic: 'Package',
  looksAt: 'onnxruntime in the archives of predict and batch, and in no other',
  why: 'Without its library a model cannot be opened; in a function that opens none it costs 18 MB of every cold start.',
  fix: 'infra/build/function-folder.ts: which functions get it',
  check: (archives) =>
    [...archives].flatMap(([name, { binaries }]): Finding[] => {
      const has = binaries.some((binary) => binary.name.includes('onnxruntime'));
      const needs = MODEL_FUNCTIONS.has(name);
      if (has === needs) return [];
      const found = has ? 'onnxruntime is inside' : 'no library of onnxruntime';
      const expected = needs ? 'onnxruntime_binding.node and its library' : 'none: it opens no model';
      return [{ severity: needs ? 'error' : 'warning', where: `${name}.zip`, found, expected }];
    }),
});

const architecture = archiveRule({
  id: 'package-architecture',
  topic: 'Package',
  looksAt: 'the processor each binary in an archive is for, against Architectures of its function',
  why: 'A library for another processor ends every environment in INIT.',
  fix: '--param arch=x86_64 or arm64, and package again: infra/build/function-folder.ts takes the binaries of that processor',
  check: (archives, template) =>
    functionsOf(template).flatMap(({ name, processor }): Finding[] => {
      const wrong = (archives.get(name)?.binaries ?? []).filter((binary) => binary.processor !== processor);
      if (wrong.length === 0) return [];
      const kinds = [...new Set(wrong.map((binary) => binary.processor))].join(', ');
      const found = `${listed(wrong.map((binary) => binary.name.replace(/.*\//, '')))} for ${kinds}`;
      return [{ severity: 'error', where: `${name}.zip`, found, expected: processor }];
    }),
});

const arm64 = templateRule({
  id: 'arm64-onnxruntime',
  topic: 'Package',
  looksAt: 'Architectures of predict and batch',
  why: 'On arm64 Lambda has no /sys/devices/system/cpu: onnxruntime before 1.25 aborted there, later ones only warn. Our arm64 archives are checked for their contents, and have not run on Lambda.',
  fix: 'try one stage first; --param arch=x86_64 goes back',
  check: (template) => {
    const found = functionsOf(template)
      .filter(({ name, processor }) => MODEL_FUNCTIONS.has(name) && processor === 'arm64')
      .map(({ name }) => name);
    if (found.length === 0) return [];
    return [
      {
        severity: 'info',
        where: found.join(', '),
        found: 'arm64',
        expected: 'onnxruntime 1.25 or later (1.30 goes along)',
      },
    ];
  },
});

export const PACKAGE_RULES = [zipSize, unzippedSize, missing, handler, runtimeMissing, architecture, arm64];
