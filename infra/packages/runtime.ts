/**
 * Puts onnxruntime-node into the packages without its install script, which downloads GPU libraries that nothing uses.
 * The command line contains the binaries for Linux, which every deployment needs. Those for another system are in an
 * optional package of their own, which npm installs on that system only.
 */
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RUNTIME_BINDING } from '../build/cold-start/runtime-binding.ts';
import { BINDING, RUNTIME } from '../build/function-folder.ts';
import type { Versions, WorkspaceManifest } from './manifest.ts';

const COMMON = 'onnxruntime-common';
const BINARIES = 'bin/napi-v6';
/** Those of the system that builds it are in it too, so that its user needs no second package. */
const INSIDE = [...new Set(['linux', process.platform])];
const OF_OTHERS = 'require(`@cluster-serving/onnxruntime-${process.platform}-${process.arch}`)';

/** @param folder of the command line's package; the others are written beside it */
export async function bundleRuntime(root: string, folder: string, version: string): Promise<Versions> {
  const license = join(root, 'infra/packages/onnxruntime.LICENSE');
  const from = join(root, 'node_modules');
  for (const name of [RUNTIME, COMMON]) {
    const to = join(folder, 'node_modules', name);
    await cp(join(from, name, 'dist'), join(to, 'dist'), { recursive: true });
    await cp(license, join(to, 'LICENSE'));
    const manifest: WorkspaceManifest = JSON.parse(await readFile(join(from, name, 'package.json'), 'utf8'));
    // The other dependencies are of the script.
    const dependencies = { [COMMON]: manifest.dependencies?.[COMMON] };
    await writeFile(
      join(to, 'package.json'),
      JSON.stringify({ ...manifest, dependencies, scripts: undefined }),
    );
  }
  const [runtime, loader] = [join(folder, 'node_modules', RUNTIME), 'dist/binding.js'];
  const text = await readFile(join(runtime, loader), 'utf8');
  const chosen = `${JSON.stringify(INSIDE)}.includes(process.platform) ? ${RUNTIME_BINDING} : ${OF_OTHERS}`;
  await writeFile(join(runtime, loader), text.replace(RUNTIME_BINDING, chosen));
  // macOS has its library twice; nothing loads that with the whole version in its name.
  const filter = (path: string) => !/(\.\d+){3}\.dylib$/.test(path);
  const copy = (path: string, to: string) =>
    cp(join(from, RUNTIME, BINARIES, path), to, { recursive: true, filter });
  for (const os of INSIDE) await copy(os, join(runtime, BINARIES, os));

  const others: Record<string, string> = {};
  for (const os of ['darwin', 'win32']) {
    for (const cpu of await readdir(join(from, RUNTIME, BINARIES, os))) {
      const name = `onnxruntime-${os}-${cpu}`;
      const to = join(folder, '..', name);
      await copy(join(os, cpu), to);
      await cp(license, join(to, 'LICENSE'));
      const access = { publishConfig: { access: 'public' } };
      const manifest = { name: `@cluster-serving/${name}`, version, license: 'MIT', os: [os], cpu: [cpu] };
      await writeFile(join(to, 'package.json'), JSON.stringify({ ...manifest, main: BINDING, ...access }));
      others[manifest.name] = version;
    }
  }
  return others;
}
