/** Forms as clients write them, and bodies that only look like one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readForm } from '../../../lib/http/worker/form.ts';

const MULTIPART = 'multipart/form-data; boundary=b';
const part = (headers: string, content: string) => `--b\r\n${headers}\r\n\r\n${content}\r\n`;
const NAMED = 'Content-Disposition: form-data; name="a"';

function read(body: string, type = MULTIPART): Record<string, string> {
  const request = { headers: { 'content-type': type }, body: () => Buffer.from(body, 'latin1') };
  const fields = [...readForm(request)];
  return Object.fromEntries(fields.map(([name, value]) => [name, Buffer.from(value).toString('latin1')]));
}

test('parts are read with their bytes as they are', () => {
  const bytes = '\0\xff\r\n--c\r\n\r\n--';
  const body = `${part(`${NAMED}; filename="x.png"\r\nContent-Type: image/png`, bytes)}${part(
    'content-disposition:form-data; name=b',
    '',
  )}--b--\r\n`;
  assert.deepEqual(read(body), { a: bytes, b: '' });
  assert.deepEqual(read(body, 'Multipart/Form-Data; charset=utf-8; boundary="b"'), { a: bytes, b: '' });
  assert.deepEqual(read('--b--'), {});
});

test('what is no form is refused', () => {
  for (const body of [
    '',
    'x',
    `x${part(NAMED, '1')}--b--`,
    part(NAMED, '1'),
    `${part(NAMED, '1')}--b`,
    `--b\r\n${NAMED}\r\n--b--`,
    `${part('Content-Type: image/png', '1')}--b--`,
    `${part('Content-Disposition: attachment; name="a"', '1')}--b--`,
    `${part(`${NAMED}\r\nContent-Transfer-Encoding: base64`, 'MQ==')}--b--`,
    `${part(NAMED, '1')}${part(NAMED, '2')}--b--`,
    `--bb\r\n${NAMED}\r\n\r\n1\r\n--b--`,
  ]) {
    assert.throws(() => read(body), { code: 'bad_request' }, body);
  }
  assert.throws(() => read('--b--', 'multipart/form-data'), { code: 'bad_request' });
  assert.throws(() => read('--b--', `multipart/form-data; boundary=${'b'.repeat(71)}`), {
    code: 'bad_request',
  });
});

test('the fields of a form and the headers of a part have limits', () => {
  const fields = (count: number) =>
    Array.from({ length: count }, (_, i) => part(`Content-Disposition: form-data; name="${i}"`, '')).join('');
  assert.equal(Object.keys(read(`${fields(32)}--b--`)).length, 32);
  assert.throws(() => read(`${fields(33)}--b--`), { code: 'too_large' });
  assert.throws(() => read(`${part(`${NAMED}\r\nx: ${'x'.repeat(9_000)}`, '')}--b--`), { code: 'too_large' });
});
