/** Archives as tar writes them become the same files; hostile and damaged ones are refused, and nothing lies outside of the folder. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { TAR_LIMITS, unpackTar } from '../../../onnx-import/files/tar.ts';
import { temporaryFolder } from '../../support/runner.ts';

const LONG = `${'a'.repeat(60)}/${'b'.repeat(90)}/${'c'.repeat(120)}.txt`;
const FILES: Readonly<Record<string, Buffer>> = {
  'model.onnx': Buffer.from('model'),
  'empty.txt': Buffer.alloc(0),
  'code/inference.py': Buffer.from('print()'),
  'saved/variables/data': Buffer.alloc(70_000, 7),
  'größe.txt': Buffer.alloc(512, 1),
  [LONG]: Buffer.alloc(513, 2),
};

async function filesIn(folder: string): Promise<Record<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const read = paths
    .sort()
    .map(async (path) => [path.slice(folder.length + 1), await readFile(path)] as const);
  return Object.fromEntries(await Promise.all(read));
}

for (const format of ['gnu', 'pax', 'posix', 'ustar']) {
  test(`an archive of tar in the format ${format}, gzipped or not, becomes its files`, async (t) => {
    const folder = await temporaryFolder(t);
    const wanted = Object.entries(FILES).filter(([path]) => format !== 'ustar' || path !== LONG);
    for (const [path, content] of wanted) {
      await mkdir(dirname(join(folder, 'from', path)), { recursive: true });
      await writeFile(join(folder, 'from', path), content);
    }
    for (const flags of ['-cf', '-czf']) {
      const archive = join(folder, 'model.tar');
      execFileSync('tar', [`--format=${format}`, flags, archive, '-C', join(folder, 'from'), '.']);
      const target = join(folder, `to${flags}`);
      const files = await unpackTar(archive, target);
      assert.deepEqual(
        await filesIn(target),
        Object.fromEntries(wanted.sort(([a], [b]) => (a < b ? -1 : 1))),
      );
      assert.equal(files.length, wanted.length);
    }
  });
}

interface Entry {
  readonly name: string;
  readonly type?: string;
  readonly content?: string | Buffer;
  /** What the header says, where it differs. */
  readonly size?: string;
  readonly sum?: string;
}

function archiveOf(...entries: readonly Entry[]): Buffer {
  const blocks = entries.map(({ name, type = '0', content = '', size, sum }) => {
    const body = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(name, 0, 100);
    header.write('0000644\0', 100);
    header.write(size ?? `${body.length.toString(8).padStart(11, '0')}\0`, 124, 12);
    header.write('        ', 148);
    header.write(type, 156);
    header.write('ustar\x0000', 257);
    const own = header.reduce((all, byte) => all + byte, 0);
    header.write(sum ?? `${own.toString(8).padStart(6, '0')}\0 `, 148, 8);
    return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
  });
  return Buffer.concat([...blocks, Buffer.alloc(1_024)]);
}

async function refusal(
  t: TestContext,
  bytes: Buffer,
  limits = TAR_LIMITS as Parameters<typeof unpackTar>[2],
) {
  const folder = await temporaryFolder(t);
  const archive = join(folder, 'model.tar.gz');
  await writeFile(archive, bytes);
  const error: unknown = await unpackTar(archive, join(folder, 'to', 'inner'), limits).then(
    (files) => files.join(),
    (problem: unknown) => problem,
  );
  const outside = Object.keys(await filesIn(folder)).filter((path) => !path.startsWith('to/inner/'));
  assert.deepEqual(outside, ['model.tar.gz']);
  assert.ok(error instanceof Error, String(error));
  assert.equal(Reflect.get(error, 'code'), 'bad_model');
  assert.ok(error.message.startsWith(archive), error.message);
  return error.message;
}

test('what would lie outside of the folder is refused', async (t) => {
  for (const name of ['../evil', '/etc/evil', 'a/../../evil', 'a\\..\\evil', 'a/..'])
    assert.match(await refusal(t, archiveOf({ name, content: 'x' })), /lies outside of the archive/);
  const long = { name: '././@LongLink', type: 'L', content: `${'../'.repeat(3)}evil\0` };
  assert.match(await refusal(t, archiveOf(long, { name: 'evil' })), /lies outside/);
  const pax = { name: 'x', type: 'x', content: '20 path=../../evil\n' };
  assert.match(await refusal(t, archiveOf(pax, { name: 'evil' })), /lies outside/);
});

test('links, devices and files that come twice are refused', async (t) => {
  for (const type of ['1', '2'])
    assert.match(await refusal(t, archiveOf({ name: 'l', type })), /l is a link; pack plain files/);
  for (const type of ['3', '4', '6', 'S', '9'])
    assert.match(await refusal(t, archiveOf({ name: 'd', type })), /d is an entry of type/);
  const twice = archiveOf({ name: 'a', content: 'x' }, { name: './a', content: 'y' });
  assert.match(await refusal(t, twice), /cannot be unpacked: EEXIST/);
});

test('counts, depths, bytes and names over the limit are refused before they cost much', async (t) => {
  const limits = { entries: 2, depth: 3, bytes: 1_000, nameBytes: 64 };
  const name = 'a';
  assert.match(
    await refusal(t, archiveOf({ name }, { name: 'b' }, { name: 'c' }), limits),
    /more than 2 entries/,
  );
  assert.match(await refusal(t, archiveOf({ name: 'a/b/c/d' }), limits), /more than 3 folders deep/);
  assert.match(
    await refusal(t, archiveOf({ name, content: 'x'.repeat(1_001) }), limits),
    /more than 1000 bytes/,
  );
  const bomb = gzipSync(archiveOf({ name, content: Buffer.alloc(50_000_000) }));
  assert.match(await refusal(t, bomb, limits), /more than 1000 bytes when unpacked/);
  const big = archiveOf({ name, size: '77777777777\0' });
  assert.match(await refusal(t, big, limits), /more than 1000 bytes/);
  const long = { name, type: 'L', content: 'x'.repeat(65) };
  assert.match(await refusal(t, archiveOf(long, { name }), limits), /a name of more than 64 bytes/);
  const pax = { name, type: 'x', content: '22 size=10000000000\n' };
  assert.match(await refusal(t, archiveOf(pax, { name }), limits), /a file of more than 8 GiB/);
});

test('what is damaged, cut off or no archive is refused', async (t) => {
  const whole = archiveOf({ name: 'a', content: 'x'.repeat(2_000) });
  assert.match(await refusal(t, whole.subarray(0, 1_500)), /it is cut off/);
  assert.match(await refusal(t, gzipSync(whole).subarray(0, 40)), /unexpected end of file/);
  assert.match(await refusal(t, archiveOf({ name: 'a', sum: '000000\0 ' })), /a checksum differs/);
  assert.match(await refusal(t, Buffer.alloc(1_024, 'x')), /it is no tar archive/);
  assert.match(await refusal(t, Buffer.from('no archive')), /it is cut off/);
  assert.match(
    await refusal(t, archiveOf({ name: 'a', size: '\x80\0\0\0\0\0\0\0\0\0\0\x05' })),
    /expected an octal number|checksum/,
  );
});

test('what macOS adds is left out', async (t) => {
  const folder = await temporaryFolder(t);
  const archive = join(folder, 'm.tar');
  await writeFile(archive, archiveOf({ name: './._a', content: 'x' }, { name: 'a', content: 'y' }));
  assert.deepEqual(await unpackTar(archive, join(folder, 'to')), ['a']);
});
