/** The output of the commands, and the texts about those of wkr, name flags and options that exist. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { explained } from '../../cli/command.ts';
import { COMMANDS } from '../../cli/main.ts';
import { runWkr, WKR_COMMANDS } from '../../cli/wkr/main.ts';
import { FLAGS_ADVICE } from '../../local/gateway/caller.ts';
import { Service } from '../local/decentral/service.ts';
import { temporaryFolder } from '../support/runner.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Matches text that looks like a flag. */
const FLAG = /(?<![\w.`/-])--?([a-z][\w-]*)/g;

async function flagsOf(name: string): Promise<ReadonlySet<string>> {
  const command = await WKR_COMMANDS[name]?.();
  assert.ok(command, name);
  return new Set([...command.help.matchAll(/^ {2}-(\w+)/gm)].map(([, flag = '']) => flag));
}

/** The words of a text that look like a flag and are none of the command, and settings of a config.yaml. */
function foreignWords(text: string, flags: ReadonlySet<string>): string[] {
  // Quoted arguments, unknown ones, and flags of another program.
  const own = text.replaceAll(/"(?:[^"\\]|\\.)*"|unknown flag -\w+|openssl rand -hex/g, '""');
  const strange = [...own.matchAll(FLAG)].filter(([, flag = '']) => !flags.has(flag));
  const settings = [...own.matchAll(/\b(?:worker|http|queue)\.[a-z]\w+|config\.yaml/g)];
  return [...strange, ...settings].map(([word]) => word);
}

const SERVING = 'server.Worker -port 0';
const DECENTRAL = 'decentralize.Client -port 0 -remote_servers [[a,1,2]]';

/** Command lines that are refused. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'wkr-serving-start': [
    'server.Worker',
    'nothing',
    'server.Worker server.Worker -port 0',
    'other.Worker -port 0',
    'both.Worker -port 0',
    ...[
      '-unknown',
      '-token_fil x',
      '-port',
      '-port x',
      '-verbose=1',
      '-name a:b',
      '-host foo',
      '-host foo -no_token',
      '-host 0.0.0.0',
      '-cors *',
      '-cors x -no_token',
      '-cors ftp:x',
      '-token_file /nope',
      '-token_file open.txt',
      '-token_file short.txt',
      '-gpu_memory_fraction 7',
      '-gpu_memory_fraction x',
      '-busy_util_threshold 7',
      '-device_map a',
      '-device_map 7',
      '-device_to_expand 7 -num_worker_expanded 3 -device_map 0',
      '-protocol x',
      '-log_name ../x',
      '-allow_img_host HTTP://x',
      '-num_worker 0',
      '-batch_size 0',
      '-predict_timeout 900001',
    ].map((flags) => `${SERVING} ${flags}`),
  ],
  'wkr-serving-make': [
    'server.Worker -port 0',
    `${SERVING} -name a -cors x`,
    `${SERVING} -name a -protocol x`,
  ],
  'wkr-serving-terminate': [
    '',
    '-port 0',
    '-port 1 -ip 203.0.113.9',
    '-port 1 -timeout 0',
    '-port 1 -token x',
  ],
  'wkr-decentral-start': [
    'decentralize.Client',
    DECENTRAL.replace('decentralize.Client', 'x'),
    ...['-num_client 0', '-log_name ../x', '-http_port x', '-remote_servers [[a,1]]'].map(
      (flags) => `${DECENTRAL} ${flags}`,
    ),
  ],
  'wkr-decentral-make': [DECENTRAL],
  'wkr-decentral-status': ['', '-port 1 -ip 203.0.113.9', '-port 1 -num_client 2'],
  'wkr-decentral-switch': ['-port 1 -num_client 9999', '-port 1 -remote_servers x'],
  'wkr-decentral-idle': [''],
  'wkr-decentral-restart': [''],
  'wkr-decentral-terminate': ['-port x'],
};

test('each error of a wkr command names flags that the command has', async (t) => {
  const folder = await temporaryFolder(t);
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  for (const name of ['server.py', 'both.py', 'both.ts']) await writeFile(name, '');
  await writeFile('open.txt', 'x'.repeat(20), { mode: 0o644 });
  await writeFile('short.txt', 'x', { mode: 0o600 });
  assert.deepEqual(Object.keys(REFUSED).toSorted(), Object.keys(WKR_COMMANDS).toSorted());
  for (const [name, lines] of Object.entries(REFUSED)) {
    const flags = await flagsOf(name);
    for (const line of lines) {
      const said: string[] = [];
      const note = (text: string) => void said.push(text);
      const output = { json: false, answer: note, piece: note, note, failure: note };
      const words = line.split(' ').filter(Boolean);
      const error = await runWkr(name, words, output as never).then(
        () => assert.fail(`${name} ${line}`),
        (thrown: unknown) => explained(thrown),
      );
      assert.equal(error.code, 'bad_config', `${name} ${line}: ${error.stack}`);
      assert.deepEqual(foreignWords(error.message, flags), [], `${name} ${line}: ${error.message}`);
      const given = [...line.slice(SERVING.length).matchAll(/-([a-z]\w*)/g)].map(([flag]) => flag);
      const isNamed = given.length === 0 || given.some((flag) => error.message.includes(flag));
      assert.ok(isNamed || !line.startsWith(SERVING), `${line}: ${error.message}`);
    }
  }
});

test('what a service of wkr-serving-start answers to refused callers names its flags', async () => {
  const flags = await flagsOf('wkr-serving-start');
  for (const text of Object.values(FLAGS_ADVICE)) assert.deepEqual(foreignWords(text, flags), [], text);
});

test('a port or a name that is taken is an error that names their flags', async (t) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as { port: number };
  const service = await Service.in(t, { 'server.py': 'class Worker:\n  def get_model(self, *_): pass' });
  const flags = await flagsOf('wkr-serving-start');
  const lines = [`-port ${port}`, `-port 0 -http_port ${port}`].map((line) => [line, line.split(' ').at(-2)]);
  const holder = join(service.folder, '.cluster-serving', 'wkr-held-0');
  await mkdir(holder, { recursive: true });
  const { identify } = await import('../../local/machine/process.ts');
  await writeFile(join(holder, 'lock.json'), JSON.stringify(await identify(process.pid)));
  lines.push(['-port 0 -name held', '-name']);
  for (const [line = '', flag = ''] of lines) {
    const { code, stderr } = await service.sh(`wkr-serving-start server.Worker ${line}`);
    assert.equal(code, 2, `${line}: ${stderr}`);
    const message = stderr.split('\n').find((text) => text.startsWith('error: ')) ?? '';
    assert.deepEqual(foreignWords(message.replace(/\(.*?\)/, ''), flags), [], message);
    assert.ok(message.includes(`choose another with ${flag}`), message);
  }
});

async function documents(): Promise<readonly string[]> {
  const names = await readdir(join(ROOT, 'docs'), { recursive: true });
  return [
    'README.md',
    'python/README.md',
    ...names.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ];
}

test('each command line of wkr in the documentation has flags that the command has', async () => {
  let seen = 0;
  for (const path of await documents()) {
    const text = await readFile(join(ROOT, path), 'utf8');
    for (const [line, name = ''] of text.matchAll(
      /(?<![\w-])(wkr-(?:serving|decentral)-\w+)(?= )[^\n`|>]*/g,
    )) {
      const flags = await flagsOf(name);
      const given = [...line.slice(name.length).matchAll(/(?<=\s)--?([a-z]\w*)/g)].map(
        ([, flag = '']) => flag,
      );
      seen += given.length;
      assert.deepEqual(
        given.filter((flag) => !flags.has(flag)),
        [],
        `${path}: ${line}`,
      );
    }
  }
  assert.ok(seen > 20, String(seen));
});

/** Flags of other programs that messages name. */
const OTHERS = [
  'params',
  'save',
  'library',
  'test',
  'version',
  'expose-gc',
  'random-seed',
  'no-lazy',
  'lazy',
  'hash',
  'ignore-scripts',
  'dereference',
  'value',
  'type',
  'task',
];

test('each option that a text of the code names is an option of a command', async () => {
  const known = new Set(OTHERS);
  for (const { load } of Object.values(COMMANDS))
    for (const name of Object.keys((await load()).options)) known.add(name);
  let seen = 0;
  for (const folder of ['cli', 'local', 'sdk', 'lib', 'onnx-import', 'release', 'infra']) {
    const names = await readdir(join(ROOT, folder), { recursive: true });
    // The advice for files of other tools names their options.
    for (const name of names.filter((each) => each.endsWith('.ts') && !each.startsWith('source/advice/'))) {
      const source = await readFile(join(ROOT, folder, name), 'utf8');
      const code = source.replaceAll(/^\s*(?:\*|\/\/|\/\*).*$/gm, '');
      for (const [text] of code.matchAll(/(['"`])(?:(?!\1)[^\n\\]|\\.)*\1/g)) {
        const options = [...text.matchAll(/(?<![\w-])--([a-z][a-z-]*)/g)].map(([, option = '']) => option);
        seen += options.length;
        assert.deepEqual(
          options.filter((option) => !known.has(option)),
          [],
          `${folder}/${name}: ${text}`,
        );
      }
    }
  }
  assert.ok(seen > 100, String(seen));
});

test('a package that is missing is named, whether it was imported or required, and a file is not', () => {
  const missing = (code: string, message: string) => explained(Object.assign(new Error(message), { code }));
  const of = (name: string) =>
    `the package ${name} is missing, which the local service needs: npm install ${name}`;
  const imported = "Cannot find package 'fauxqs' imported from /a/node_modules/b/c.mjs";
  assert.equal(missing('ERR_MODULE_NOT_FOUND', imported).message, of('fauxqs'));
  const binary = '@cluster-serving/onnxruntime-darwin-arm64';
  const required = `Cannot find module '${binary}'\nRequire stack:\n- /a/binding.js`;
  assert.equal(missing('MODULE_NOT_FOUND', required).message, of(binary));
  for (const file of ['/a/b.mjs', './b.js', '../bin/napi-v6/linux/x64/onnxruntime_binding.node'])
    assert.equal(missing('MODULE_NOT_FOUND', `Cannot find module '${file}'`).code, 'internal');
});
