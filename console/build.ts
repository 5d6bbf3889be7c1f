/** Bundles the page into one document, which loads nothing: its policy names its own script and style by their digests. */
import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type Metafile } from 'esbuild';

export interface Built {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
  readonly metafile: Metafile;
}

/** @param root the checkout, absolute */
export async function buildPage(root: string): Promise<Built> {
  const { outputFiles, metafile } = await build({
    entryPoints: ['console/main.tsx', 'console/style.css'],
    absWorkingDir: root,
    outdir: 'console',
    write: false,
    bundle: true,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    metafile: true,
    logLevel: 'silent',
  });
  const textOf = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text.trim() ?? '';
  const script = textOf('.js').replaceAll('</script', String.raw`<\/script`);
  const style = textOf('.css');
  return { html: documentOf(script, style), policy: policyOf(script, style), metafile };
}

/** Writes the page into a published package. @returns what esbuild says of its packages */
export async function writePage(root: string, folder: string): Promise<Metafile> {
  const { html, policy, metafile } = await buildPage(root);
  await mkdir(join(folder, 'console'), { recursive: true });
  await writeFile(join(folder, 'console', 'page.json'), JSON.stringify({ html, policy }));
  return metafile;
}

function documentOf(script: string, style: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Console</title><link rel="icon" href="data:,"><style>${style}</style></head>
<body><div id="page"><noscript>This page needs JavaScript.</noscript></div><script>${script}</script></body></html>
`;
}

function policyOf(script: string, style: string): string {
  return [
    "default-src 'none'",
    `script-src '${digest(script)}'`,
    `style-src '${digest(style)}'`,
    "connect-src 'self'",
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // No text becomes HTML.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

function digest(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
