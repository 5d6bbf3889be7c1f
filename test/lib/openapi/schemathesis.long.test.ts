/**
 * Requests that schemathesis makes of /openapi.json, valid and invalid ones, get what the document declares, with its default
 * checks. SCHEMATHESIS names the program: `python -m venv v && v/bin/pip install schemathesis==4.32.5`, then `v/bin/schemathesis`.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { encodeBase64 } from '../../../lib/codecs/encode-base64.ts';
import { encodeTensors } from '../../../lib/codecs/safetensors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';
import { DESCRIBED_JOBS, PICTURE } from '../../support/described-jobs.ts';
import { childEnvironment } from '../../support/environment.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { startReady } from '../../support/start.ts';

const PROGRAM = process.env['SCHEMATHESIS'] ?? 'schemathesis';
const HOOKS = fileURLToPath(new URL('described-hooks.py', import.meta.url));
/** The drawn requests; SCHEMATHESIS_ARGS changes them, such as `--phases fuzzing --max-examples 50 --seed 7`. */
const CHOSEN = (process.env['SCHEMATHESIS_ARGS'] ?? '--phases examples,coverage --seed 1').split(' ');
const isThere = spawnSync(PROGRAM, ['--version'], { env: childEnvironment() }).status === 0;
const skip = isThere ? false : `there is no program ${PROGRAM}: set SCHEMATHESIS`;

/**
 * Differences from its defaults:
 * - A method without a route is answered by the gateway as API Gateway does, with 404.
 * - A request over a limit is refused with 413.
 * - OpenAPI cannot say that the parameter `identity` needs `uri`, that the data of a tensor in /v2 has as many elements as its
 *   shape says, nor that the rows of a request to /v1/models are alike. What is valid there test/e2e/described-values.system.test.ts sends.
 */
const CONFIG = `
request-timeout = 40
hooks = ${JSON.stringify(HOOKS)}
[checks]
unsupported_method.enabled = false
negative_data_rejection.expected-statuses = ["400","401","403","404","409","413","415","422","429","5xx"]
[[operations]]
include-operation-id = "takeResults"
checks.positive_data_acceptance.enabled = false
[[operations]]
include-path-regex = "/infer$|^/v1/models"
checks.positive_data_acceptance.enabled = false
`;

const tensor: Tensor = { dtype: 'float32', shape: [1], data: Float32Array.of(1) };
const FORMATS = {
  image: PICTURE,
  arrow: encodeBase64(encodeArrowRecord(new Map([['x', { kind: 'tensor', tensor }]]))),
  safetensors: encodeBase64(encodeTensors(new Map([['x', tensor]]), {})),
  stream: '{"instances": [{"x": 1}]}',
  number: '1.5',
};

for (const [name, { csv, config, fill }] of Object.entries(DESCRIBED_JOBS)) {
  test(`the service of ${name} does what its document says`, { skip }, async (t) => {
    const folder = await temporaryFolder(t, 'cs-described-');
    await writeFile(join(folder, 'schemathesis.toml'), CONFIG);
    await fill?.(folder, t);
    if (config) await writeFile(join(folder, 'config.yaml'), config);
    const options = config ? ['-c', join(folder, 'config.yaml')] : [];
    const { addresses } = await startReady(t, ...options, '--data-dir', join(folder, 'data'));
    const given = JSON.stringify({ formats: FORMATS, csv });
    // A frame, which is all that the table's /encode takes, it cannot make.
    const other = name === 'a table' ? ['--exclude-path-regex', '^/encode$'] : [];
    const args = ['run', `${addresses.http}/openapi.json`, ...CHOSEN, ...other, '--no-color'];
    const report = await new Promise<string>((resolve) => {
      const env = childEnvironment({ DESCRIBED: given });
      execFile(PROGRAM, args, { cwd: folder, env, maxBuffer: 2 ** 28 }, (error, stdout) =>
        resolve(error ? stdout : ''),
      );
    });
    assert.equal(report, '');
  });
}
