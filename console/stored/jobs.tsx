/** Jobs over files: how far each is, its errors and what it cost, and a button that ends it. Absent where there are none. */
import { useState } from 'preact/hooks';
import type { Done } from '../api.ts';
import { act, isUnavailable } from '../client.ts';
import type { JobFacts, JobList } from '../jobs.ts';
import { Card, Confirm, useAsked } from '../ui.tsx';

export function JobsCard() {
  const asked = useAsked<JobList>('jobs');
  const [chosen, setChosen] = useState<string>();
  const { value } = asked;
  if (value === undefined || isUnavailable(value) || value.jobs.length === 0) return null;
  const state = value.jobs.find(({ id }) => id === chosen)?.state ?? 'gone';
  return (
    <Card title="Jobs over files" aside={<span class="quiet">newest first</span>}>
      <div class="scroll" tabIndex={0} role="region" aria-label="Jobs over files">
        <table class="jobs">
          <thead>
            <tr>
              {['Job', 'State', 'Rows', 'Errors', 'Cost', ''].map((name) => (
                <th key={name} scope="col">
                  {name === '' ? <span class="hidden">Action</span> : name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {value.jobs.map((job) => (
              <JobRow key={job.id} job={job} onCancel={setChosen} />
            ))}
          </tbody>
        </table>
      </div>
      {value.more > 0 && <p class="quiet">and {value.more} more</p>}
      {chosen && (
        <Confirm
          title="Cancel this job?"
          verb="Cancel the job"
          keep="Keep it running"
          over={mayEnd(state) ? undefined : `The job is ${state}: there is nothing to cancel.`}
          onConfirm={async () => (await act<Done>('cancel', { id: chosen })).done}
          onClose={() => {
            setChosen(undefined);
            void asked.again();
          }}
        >
          <p>
            <code>{chosen}</code> writes no results then. What it has answered stays, and it can go on.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function JobRow({ job, onCancel }: { job: JobFacts; onCancel: (id: string) => void }) {
  const { id, state, rows, total, errors, files, error, results, dollars } = job;
  return (
    <tr>
      <th scope="row">
        <code>{id}</code>
        {error !== undefined && <p class="quiet">{error}</p>}
        {results !== undefined && <p class="quiet">{results}</p>}
      </th>
      <td data-label="State">
        <span class={`badge ${BADGES[state] ?? ''}`}>{state}</span>
      </td>
      <td data-label="Rows">
        {(total !== undefined || mayEnd(state)) && (
          <progress
            value={total === undefined ? undefined : rows}
            max={total || 1}
            aria-label={`Rows of ${id}`}
          />
        )}
        <span class="quiet">
          {total === undefined
            ? `${countText(rows)} rows answered so far`
            : `${countText(rows)} of ${countText(total)}`}{' '}
          in {countText(files)} {files === 1 ? 'file' : 'files'}
        </span>
      </td>
      <td data-label="Errors">{countText(errors)}</td>
      <td data-label="Cost">{dollars === undefined ? '–' : `$${dollars.toPrecision(2)}`}</td>
      <td>
        {mayEnd(state) && (
          <button type="button" class="small" onClick={() => onCancel(id)} aria-label={`Cancel ${id}`}>
            Cancel
          </button>
        )}
      </td>
    </tr>
  );
}

function mayEnd(state: string): boolean {
  return state === 'running' || state === 'waiting';
}

const BADGES: Readonly<Partial<Record<JobFacts['state'], string>>> = { done: 'succeeded', failed: 'failed' };

function countText(count: number): string {
  return count.toLocaleString('en');
}
