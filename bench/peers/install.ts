/**
 * `npm run bench:install [-- <name>...]`: installs peers with their pinned packages, without a name all of them. The note of
 * what is there is written last, so that an installation that broke off does not count.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { INSTALLED, noteFile, PEER_NAMES, type PeerName, pinsFile } from './installed.ts';

const STEP_LIMIT_MS = 900_000;

function install(name: PeerName): void {
  const cwd = join(INSTALLED, name);
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd, timeout: STEP_LIMIT_MS, stdio: ['ignore', 'inherit', 'inherit'] });
  rmSync(cwd, { recursive: true, force: true });
  mkdirSync(cwd, { recursive: true });
  if (pinsFile(name).endsWith('package.json')) {
    copyFileSync(pinsFile(name), join(cwd, 'package.json'));
    // The runtime client alone is compiled, which takes 3 minutes.
    const scripts = `--ignore-scripts=${name !== 'aws-lambda-ric'}`;
    run('npm', 'install', scripts, '--no-audit', '--no-fund', '--no-package-lock');
  } else if (pinsFile(name).endsWith('Cargo.toml')) {
    cpSync(dirname(pinsFile(name)), cwd, { recursive: true });
    run('cargo', 'build', '--quiet', '--release');
  } else {
    run('python3', '-m', 'venv', 'venv');
    run(join(cwd, 'venv', 'bin', 'python'), '-m', 'pip', 'install', '--quiet', '-r', pinsFile(name));
  }
  copyFileSync(pinsFile(name), noteFile(name));
}

function main(names: readonly string[]): number {
  const unknown = names.filter((name) => !PEER_NAMES.includes(name as PeerName));
  if (unknown.length > 0) {
    console.error(`no peer ${unknown.join(', ')}; there are ${PEER_NAMES.join(', ')}`);
    return 2;
  }
  let failures = 0;
  for (const name of names.length > 0 ? (names as PeerName[]) : PEER_NAMES) {
    try {
      install(name);
      console.log(`${name}: installed`);
    } catch (error) {
      failures++;
      console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return failures > 0 ? 1 : 0;
}

process.exitCode = main(process.argv.slice(2));
