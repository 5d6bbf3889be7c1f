/** The process of warm.ts: runs each command line that it is sent, and answers with what `cli` would have. */
import { run } from '../../cli/main.ts';
import { openOutput } from '../../cli/output.ts';
import type { WarmRequest } from './warm.ts';

process.on('message', ({ args, cwd, env }: WarmRequest) => {
  void answer(args, cwd, env).then((ran) => process.send?.(ran));
});
process.on('disconnect', () => process.exit());

async function answer(args: WarmRequest['args'], cwd: string, env: WarmRequest['env']) {
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  const [stdout, stderr] = [captured(process.stdout), captured(process.stderr)];
  try {
    const code = await run(args, openOutput(args.includes('--json')));
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.end();
    stderr.end();
  }
}

/** Collected from the stream until `end`, instead of being written. */
function captured(stream: NodeJS.WriteStream) {
  const write = stream.write.bind(stream);
  const pieces: string[] = [];
  stream.write = (piece: string | Uint8Array) => {
    pieces.push(typeof piece === 'string' ? piece : Buffer.from(piece).toString());
    return true;
  };
  return {
    text: () => pieces.join(''),
    end: () => {
      stream.write = write;
    },
  };
}
