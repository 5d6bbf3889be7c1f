/**
 * The page itself, which holds nothing of a service. The published package contains it; in a checkout esbuild, which is a
 * dependency there, builds it at the first request, in a tenth of a second.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Built } from '../../console/build.ts';
import type { HttpResponse } from '../../lib/http/response.ts';
import { packageFolder } from '../machine/installation.ts';

/** In the published package; infra/packages writes it. */
const BUILT_PAGE = join('console', 'page.json');

type BuiltPage = Pick<Built, 'html' | 'policy'>;

let page: Promise<BuiltPage> | undefined;

/** @throws what the build reports; the next call tries again */
export async function consolePage(): Promise<HttpResponse> {
  const opened = (page ??= openPage());
  opened.catch(() => {
    page = undefined;
  });
  const { html, policy } = await opened;
  return {
    statusCode: 200,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      vary: 'accept',
      'x-content-type-options': 'nosniff',
    },
    body: html,
  };
}

async function openPage(): Promise<BuiltPage> {
  const folder = packageFolder();
  const built = await readFile(join(folder, BUILT_PAGE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  if (built !== undefined) return JSON.parse(built) as BuiltPage;
  const { buildPage } = await import('../../console/build.ts');
  return buildPage(folder);
}
