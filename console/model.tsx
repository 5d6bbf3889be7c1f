/** The model: what it takes and gives, what is known of it, and a form that asks it. */
import type { ModelFacts, PortFacts } from './api.ts';
import { isUnavailable } from './client.ts';
import { TryModel } from './try/form.tsx';
import { TryWorker } from './try/worker.tsx';
import { batchingText, Card, Help, Missing, shapeText, sizeText, Words } from './ui.tsx';

/** @param filled values of the form, from a link; '' for none */
export function ModelView({ facts, filled }: { facts: ModelFacts; filled: string }) {
  const { inputs, outputs } = facts;
  const canTry = !isUnavailable(inputs) && !isUnavailable(outputs);
  return (
    <div class="columns">
      {facts.kind === 'worker' ? (
        <TryWorker caller={facts.caller} />
      ) : canTry ? (
        // Another version may have other inputs, and another link other values.
        <TryModel
          key={`${facts.version} ${filled}`}
          inputs={inputs}
          outputs={outputs}
          caller={facts.caller}
          filled={filled}
        />
      ) : (
        <Card title="Try it">
          <Missing why={isUnavailable(inputs) ? inputs.unavailable : 'The outputs are not known.'} />
        </Card>
      )}
      <div class="stack">
        <Facts facts={facts} />
        {facts.kind === 'model' && <Ports title="Inputs" ports={inputs} />}
        {facts.kind === 'model' && <Ports title="Outputs" ports={outputs} />}
        <Further further={facts.further} job={facts.job} />
        <Report facts={facts} />
      </div>
    </div>
  );
}

function Facts({ facts }: { facts: ModelFacts }) {
  const { kind, worker, version, batching, filter, release, caller } = facts;
  return (
    <Card title={kind === 'worker' ? 'Worker' : 'Model'}>
      <dl class="facts">
        {worker !== undefined && <Fact name="Class" value={<code>{worker}</code>} />}
        {version !== worker && <Fact name="Version" value={<code>{version}</code>} />}
        <Fact
          name="Batching"
          value={<Words text={isUnavailable(batching) ? batching.unavailable : batchingText(batching.why)} />}
        />
        {filter !== '' && <Fact name="Filter" value={<code>{filter}</code>} />}
        {caller.stack !== undefined && <Fact name="Stack" value={<code>{caller.stack}</code>} />}
        {caller.url !== undefined && <Fact name="API" value={<code>{caller.url}</code>} />}
        <Fact name="Service" value={`release ${release}`} />
      </dl>
      {kind === 'model' && (
        <Help about="What is batching?">
          <p>
            Records that wait at the same time can run through the model together, which is faster. The
            service does so only where it has shown that no record changes the answer of another one.{' '}
            <code>batching</code> in config.yaml decides otherwise, and <code>batchSize</code> is the most
            that run together.
          </p>
        </Help>
      )}
    </Card>
  );
}

function Fact({ name, value }: { name: string; value: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Ports({ title, ports }: { title: string; ports: ModelFacts['inputs'] }) {
  return (
    <Card title={title}>
      {isUnavailable(ports) ? (
        <Missing why={ports.unavailable} />
      ) : (
        <ul class="ports">
          {ports.map((port) => (
            <li key={port.name}>
              <code class="name">{port.name}</code>
              <code class="type">
                {port.dtype} {shapeText(port.shape)}
              </code>
              <PortNotes port={port} />
            </li>
          ))}
        </ul>
      )}
      {title === 'Inputs' && !isUnavailable(ports) && <BatchNote ports={ports} />}
    </Card>
  );
}

/** Says once what the first size of the shapes is, which no record has. */
function BatchNote({ ports }: { ports: readonly PortFacts[] }) {
  const batched = ports.find(({ shape, row }) => shape.length === row.length + 1);
  if (!batched) return null;
  return (
    <p class="quiet">
      The first size of each shape
      {typeof batched.shape[0] === 'string' && batched.shape[0] !== '' && (
        <>
          , <code>{batched.shape[0]}</code>,
        </>
      )}{' '}
      is the number of records that run together (the batch). One record of <code>{batched.name}</code> is{' '}
      {sizesText(batched.row)}.
    </p>
  );
}

/** `3 × 8 × 8 values`. */
function sizesText(row: PortFacts['row']): string {
  if (row.every((size) => size === 1)) return 'a single value';
  return `${row.map(sizeText).join(' × ')} values`;
}

const SHOWN_NAMES = 200;

/** The page asks the job's own model; these are asked by their names. */
function Further({ further = [], job }: Pick<ModelFacts, 'further' | 'job'>) {
  if (!isUnavailable(further) && further.length === 0) return null;
  return (
    <Card title="Further models">
      {isUnavailable(further) ? (
        <Missing why={further.unavailable} />
      ) : (
        <>
          <p class="quiet">
            A request names one, as <code>/predict?model={further[0]}</code>. This page asks{' '}
            <code>{job}</code>.
          </p>
          <ul class="notes">
            {further.slice(0, SHOWN_NAMES).map((name) => (
              <li key={name}>
                <code>{name}</code>
              </li>
            ))}
          </ul>
          {further.length > SHOWN_NAMES && <p class="quiet">and {further.length - SHOWN_NAMES} more</p>}
        </>
      )}
    </Card>
  );
}

function PortNotes({ port: { image, takes, names, optional } }: { port: PortFacts }) {
  const size = image && image.width > 0 ? `, ${image.width} × ${image.height}` : '';
  const notes = [
    ...(image ? [`pictures in ${image.isGrey ? 'grey' : 'colour'}${size}`] : []),
    ...(takes === 'text' ? ['texts'] : []),
    ...(optional ? ['may be left out'] : []),
  ];
  return (
    <>
      {notes.length > 0 && <span class="quiet">{notes.join('; ')}</span>}
      {names && (
        <details>
          <summary>{names.length} names</summary>
          <ol start={0} class="names">
            {names.slice(0, SHOWN_NAMES).map((name, i) => (
              <li key={i}>{name}</li>
            ))}
          </ol>
          {names.length > SHOWN_NAMES && <p class="quiet">and {names.length - SHOWN_NAMES} more</p>}
        </details>
      )}
    </>
  );
}

function Report({ facts: { notes, report, kind, batching } }: { facts: ModelFacts }) {
  if (kind === 'worker') return null;
  const others = notes.filter((note) => isUnavailable(batching) || note !== batching.why);
  return (
    <Card title="Import">
      {isUnavailable(report) ? (
        <p class="quiet">{report.unavailable}</p>
      ) : (
        <details>
          <summary>Import report</summary>
          <pre>{report.text}</pre>
        </details>
      )}
      {others.length > 0 && (
        <ul class="notes">
          {others.map((note) => (
            <li key={note} class="note">
              <Words text={note} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
