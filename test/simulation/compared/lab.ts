/** One simulated process without a deployment around it, for comparisons of what it reaches with the real thing. */
import { LuaWasm } from 'wasmoon';
import { bundlePrograms } from '../machine/bundle.ts';
import { Disk } from '../machine/disk.ts';
import { Network } from '../machine/network.ts';
import { type Machine, SimulatedProcess } from '../machine/process.ts';
import { Choices } from '../machine/random.ts';
import { Scheduler } from '../machine/scheduler.ts';
import { SharedClient } from '../machine/shared.ts';
import { type Fate, type Services, sdkModule } from '../models/aws.ts';
import { childModule } from '../models/children.ts';
import { modelFile, onnxModule } from '../models/inference.ts';
import { netModule } from '../models/net.ts';
import { tlsModule } from '../models/tls.ts';

const ARRIVES: Fate = { thereMs: 1, backMs: 1, what: 'arrives' };

export interface LabOptions {
  readonly serve?: Services['serve'];
  readonly fate?: () => Fate;
}

export interface Lab {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly process: SimulatedProcess;
  reach: 'open' | 'refused' | 'silent';
  /** The modules of programs/lab.ts, in the process. */
  readonly program: Readonly<Record<string, unknown>>;
  /** Runs work in the process, in virtual time. @returns what it returns */
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** Ms of virtual time in which a comparison ends. */
const LIMIT_MS = 600_000;

export async function openLab({ serve = () => ({}), fate = () => ARRIVES }: LabOptions = {}): Promise<Lab> {
  const [evaluate, shared, lua] = await Promise.all([
    bundlePrograms(),
    SharedClient.open(),
    LuaWasm.initialize(),
  ]);
  const uncaught: unknown[] = [];
  const scheduler = new Scheduler({ onUncaught: (_owner, error) => void uncaught.push(error) });
  const reached: { reach: Lab['reach'] } = { reach: 'open' };
  const network = new Network(scheduler, { delayMs: () => 1, reach: () => reached.reach });
  const services: Services = { serve, fate };
  const machine: Machine = {
    scheduler,
    network,
    choices: new Choices(1),
    fetchOf: () => () => Promise.reject(new TypeError('fetch failed')),
    onLine: () => undefined,
    modules: (process) => ({
      ioredis: () => shared.module,
      net: () => netModule(network, process),
      tls: () => tlsModule(process, services),
      http: () => ({}),
      https: () => ({}),
      child_process: () => childModule(process, { machine, startMs: () => 200 }),
      '@aws-sdk/client-s3': () => sdkModule(process, services, 's3'),
      '@aws-sdk/client-sqs': () => sdkModule(process, services, 'sqs'),
      wasmoon: () => ({ LuaWasm: { initialize: async () => lua } }),
      'onnxruntime-node': () =>
        onnxModule(process, {
          openMs: () => 30,
          runMs: () => 5,
          slowMs: 400,
          onOpen: () => undefined,
          onRun: () => undefined,
          onClosedRun: () => undefined,
        }),
    }),
  };
  const disk = new Disk();
  disk.write('/model/model.onnx', modelFile(1));
  const variables = { AWS_REGION: 'eu-west-1' };
  const process = new SimulatedProcess(machine, evaluate, {
    name: 'lab',
    variables,
    disk,
    wall: { offsetMs: 0 },
    pid: 7,
  });
  shared.current = () => process;
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
    process.after(0, () => {
      void work().then(
        (value) => (outcome = { value }),
        (error: unknown) => (outcome = { error }),
      );
    });
    await scheduler.run(scheduler.nowMs + LIMIT_MS, () => outcome !== undefined);
    if (uncaught.length > 0) throw uncaught[0];
    if (!outcome) throw new Error('it did not end');
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  };
  const program = await run(async () => (await process.programs['lab']?.()) ?? {});
  return Object.assign(reached, { scheduler, network, process, program, run });
}
