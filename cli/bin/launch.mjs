/**
 * In: the command line of one of the scripts beside this file. Out: the command, run.
 * Trap: this is read by whatever Node there is, so it is plain JavaScript, and the rest is loaded after the check.
 */
import * as nodeModule from 'node:module';

const NEEDED_MAJOR = 24;

/** `command` comes from the script's own name: cluster-serving-start is `cluster-serving start`. */
export async function launch(command) {
  const { node } = process.versions;
  if (Number(node.split('.')[0]) < NEEDED_MAJOR) {
    console.error(
      `error: cluster-serving needs Node ${NEEDED_MAJOR} or newer, this is Node ${node} (${process.execPath}); ` +
        `install Node ${NEEDED_MAJOR}, or put it first on the PATH`,
    );
    process.exit(1);
  }
  // Half the time of a command is reading its own sources.
  nodeModule.enableCompileCache();
  const { main } = await import('../main.ts');
  const args = process.argv.slice(2);
  const code = await main(command === undefined ? args : [command, ...args]);
  // A pipe takes 64 kB at a time; an exit now would cut a long answer off.
  const written = (stream) => new Promise((resolve) => stream.write('', resolve));
  await Promise.all([process.stdout, process.stderr].map(written));
  process.exit(code);
}
