/**
 * In: a command line. Out: its command has run; the exit code.
 * Trap: each command is loaded when it is called: `status` does not pay for onnxruntime.
 */
import { suggest } from '../lib/config/suggest.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { installation } from '../local/installation.ts';
import { type Command, explained } from './command.ts';
import { EXIT, type Output, openOutput } from './output.ts';

interface Entry {
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

export const COMMANDS: Readonly<Record<string, Entry>> = {
  init: {
    summary: 'write a commented config.yaml, or the serverless.yml of a deployment',
    load: async () => (await import('./commands/init.ts')).init,
  },
  start: {
    summary: 'start the service on this machine, in the background',
    load: async () => (await import('./commands/start.ts')).start,
  },
  stop: { summary: 'stop it; its data stay', load: async () => (await import('./commands/stop.ts')).stop },
  restart: {
    summary: 'stop it and start it the same way',
    load: async () => (await import('./commands/restart.ts')).restart,
  },
  shutdown: {
    summary: 'stop it and delete its data',
    load: async () => (await import('./commands/shutdown.ts')).shutdown,
  },
  status: {
    summary: 'is it running and ready, where, and how busy',
    load: async () => (await import('./commands/status.ts')).status,
  },
  predict: {
    summary: 'send images or a JSON request, print the answers',
    load: async () => (await import('./commands/predict.ts')).predict,
  },
  enqueue: {
    summary: 'put records into the queue',
    load: async () => (await import('./commands/enqueue.ts')).enqueue,
  },
  query: { summary: 'print results', load: async () => (await import('./commands/query.ts')).query },
  model: {
    summary: 'make an ONNX model of another one, check it, upload it; versions, rollback',
    load: async () => (await import('./model/model.ts')).model,
  },
  tune: {
    summary: 'measure a model: batch size, threads, memory, and what a million predictions cost',
    load: async () => (await import('./tune/tune.ts')).tune,
  },
  doctor: {
    summary: 'look for pitfalls before a deployment to AWS',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  dlq: {
    summary: 'records that ran out of tries: list, show, replay or delete them',
    load: async () => (await import('./dlq/dlq.ts')).dlq,
  },
};

const HELP = `Usage: cluster-serving <command> [options]

Serves ONNX models over HTTPS and through a queue. On this machine:

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`)
  .join('\n')}
  help       this text, or that of a command: cluster-serving help start

  -h, --help     this text; after a command, that of the command
  -v, --version  the version
      --json     after any command: print JSON, and nothing else on stdout

init, start, stop, restart and shutdown are commands of their own too: cluster-serving-start -c config.yaml
Exit codes: 0 done, 1 failed, 2 wrong use or config, 3 not running, 4 not ready`;

export async function main(args: readonly string[]): Promise<number> {
  // Whoever reads our output may have seen enough: `cluster-serving query --all | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.ok);
  });
  return run(args, openOutput(args.includes('--json')));
}

/** @returns the exit code; whatever goes wrong is told to `output` */
export async function run(args: readonly string[], output: Output): Promise<number> {
  try {
    return await dispatch(args, output);
  } catch (error) {
    const known = explained(error);
    output.failure(known);
    return known.code === 'bad_config' ? EXIT.wrongUse : EXIT.failed;
  }
}

async function dispatch(args: readonly string[], output: Output): Promise<number> {
  const [first, ...rest] = args.filter((arg, i) => i > 0 || arg !== '--json');
  if (first === '--version' || first === '-v') {
    const { version } = installation();
    output.answer({ version, node: process.versions.node }, version);
    return EXIT.ok;
  }
  if (first === 'help' && rest[0] !== undefined && rest[0] !== '--json') {
    return (await commandOf(rest[0])).run(['--help'], output);
  }
  if (first === 'help' || first === '--help' || first === '-h') {
    output.answer({ help: HELP }, HELP);
    return EXIT.ok;
  }
  if (first === undefined) {
    output.failure(new ServingError('bad_config', `which command?\n\n${HELP}`));
    return EXIT.wrongUse;
  }
  return (await commandOf(first)).run(rest, output);
}

async function commandOf(name: string): Promise<Command> {
  if (Object.hasOwn(COMMANDS, name)) return (COMMANDS[name] as Entry).load();
  const meant = suggest(name, Object.keys(COMMANDS));
  const advice = meant ? `did you mean ${meant}?` : '`cluster-serving help` lists them';
  throw new ServingError('bad_config', `there is no command ${JSON.stringify(name)}; ${advice}`);
}
