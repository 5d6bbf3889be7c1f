/**
 * Rules about the archives of a template: what Lambda would refuse or could not start. A library for another
 * processor fails only in INIT, at the first request after a successful deployment.
 */
import { archiveRule, counted, type Finding, listed, megabytes, settingsRule, templateRule } from './rule.ts';
import { functionsOf, MODEL_FUNCTIONS, type Properties, recordOf, textOf } from './template.ts';

const DIRECT_BYTES = 50 * 1024 * 1024;
/** The project's target: the functions with onnxruntime have 18.4 MB. */
const TARGET_BYTES = 20 * 1024 * 1024;
const UNZIPPED_BYTES = 250 * 1024 * 1024;

const zipSize = archiveRule({
  id: 'package-zip-size',
  topic: 'Package',
  looksAt: 'size of every zip',
  why: 'Lambda accepts 50 MB in a direct upload, and every new environment downloads the archive; ours stay below 20 MB.',
  fix: 'find what was added: npx serverless package prints the largest parts of each',
  check: (archives) =>
    [...archives].flatMap(([name, { bytes }]): Finding[] => {
      if (bytes <= TARGET_BYTES) return [];
      const severity = bytes > DIRECT_BYTES ? 'error' : 'warning';
      const expected = `at most ${megabytes(TARGET_BYTES)}; Lambda accepts ${megabytes(DIRECT_BYTES)} in a direct upload`;
      return [{ severity, where: `${name}.zip`, found: megabytes(bytes), expected }];
    }),
});

const unzippedSize = archiveRule({
  id: 'package-unzipped-size',
  topic: 'Package',
  looksAt: 'size of every archive when unzipped',
  why: 'Lambda refuses a function over 250 MB unzipped; the whole of onnxruntime-node alone has 294 MB.',
  fix: 'leave package.patterns as they are: they include 46 MB of it',
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
  why: 'The deployment uploads the archives beside the template; a function without one cannot be created.',
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
  why: 'If the file is missing, every invocation fails with Runtime.ImportModuleError.',
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
  looksAt: 'onnxruntime in the archives of predict, batch and trials, and in no other',
  why: 'Without the library a model cannot be opened; in a function that opens no model it adds 18 MB to every cold start.',
  fix: 'leave package.patterns as they are, and package again',
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
  looksAt: 'the processor of each binary in an archive, against Architectures of its function',
  why: 'With a library for another processor, every environment fails in INIT.',
  fix: '--param arch=x86_64 or arm64, and package again, with the binaries of that processor',
  check: (archives, template) =>
    functionsOf(template).flatMap(({ name, processor }): Finding[] => {
      const wrong = (archives.get(name)?.binaries ?? []).filter((binary) => binary.processor !== processor);
      if (wrong.length === 0) return [];
      const kinds = [...new Set(wrong.map((binary) => binary.processor))].join(', ');
      const found = `${listed(wrong.map((binary) => binary.name.replace(/.*\//, '')))} for ${kinds}`;
      return [{ severity: 'error', where: `${name}.zip`, found, expected: processor }];
    }),
});

const unbuilt = templateRule({
  id: 'package-image',
  topic: 'Package',
  looksAt: 'the image of predict and batch, with a worker in Python',
  why: 'Packaging needs neither docker nor AWS, so it writes what the image is built from, and a template that takes the image as a parameter.',
  fix: 'npx serverless deploy with docker running; or build .serverless/worker-image and give --param workerImage=<uri>@sha256:<digest>',
  check: (template) => {
    const isUnbuilt = ({ properties }: { readonly properties: Properties }) =>
      'Ref' in recordOf(recordOf(properties['Code'])['ImageUri']);
    const where = functionsOf(template)
      .filter(isUnbuilt)
      .map(({ name }) => name);
    if (where.length === 0) return [];
    const expected = 'an image, which a deployment builds';
    return [{ severity: 'info', where: where.join(' and '), found: 'the image is not built yet', expected }];
  },
});

const arm64 = settingsRule({
  id: 'arm64-onnxruntime',
  topic: 'Package',
  looksAt: 'the processor of predict and batch',
  why: 'Lambda on arm64 has no /sys/devices/system/cpu: onnxruntime before 1.25 aborted there, later versions only warn. The contents of our arm64 archives are tested, but they have not run on Lambda.',
  fix: 'test it in one stage first; --param arch=x86_64 switches back',
  check: ({ parameters }) => {
    if (parameters['arch'] !== 'arm64') return [];
    const expected = 'onnxruntime 1.25 or later (1.30 is included)';
    return [{ severity: 'info', where: '--param arch', found: 'arm64', expected }];
  },
});

export const PACKAGE_RULES = [
  zipSize,
  unzippedSize,
  missing,
  handler,
  runtimeMissing,
  architecture,
  unbuilt,
  arm64,
];
