/**
 * A picture that is dropped, chosen or pasted, or drawn on a square. It goes to the service unchanged: JPEG, PNG, WebP,
 * BMP or GIF.
 */
import { useEffect, useState } from 'preact/hooks';
import { Choice, Problem } from '../ui.tsx';
import { DRAWING, Drawing } from './drawing.tsx';
import type { Given } from './request.ts';

interface PictureOptions {
  readonly given: Given | undefined;
  /** @param runsNow the person is done with it */
  readonly onPicture: (given: Given, runsNow: boolean) => void;
}

const WAYS = ['File', 'Draw'] as const;
const TYPES = ['image/jpeg', 'image/png', 'image/webp', 'image/bmp', 'image/gif'];
/** A request may have 6 MiB, and base64 is a third longer. */
const MOST_BYTES = 4_400_000;

export function Picture({ given, onPicture }: PictureOptions) {
  const [chosen, setChosen] = useState<(typeof WAYS)[number]>('File');
  // An example is shown as a file, also while a person draws.
  const isFile = given !== undefined && given.text !== '' && given.fileName !== DRAWING;
  const way = isFile ? 'File' : chosen;
  const choose = (next: typeof way) => {
    // The square is empty, so nothing else may be asked.
    if (next === 'Draw' && next !== way) onPicture({ text: '' }, false);
    setChosen(next);
  };
  const take = (picture: Given, runsNow: boolean) => {
    setChosen('File');
    onPicture(picture, runsNow);
  };
  return (
    <div class="picture">
      <Choice label="Where the picture is from" options={WAYS} value={way} onChange={choose} />
      {way === 'File' ? <FilePicture given={given} onPicture={take} /> : <Drawing onPicture={onPicture} />}
    </div>
  );
}

function FilePicture({ given, onPicture }: PictureOptions) {
  const { text = '', fileName = '' } = given ?? {};
  const [error, setError] = useState<string>();
  const [isOver, setOver] = useState(false);
  const take = async (file: File | undefined) => {
    setOver(false);
    if (!file) return;
    const problem = problemOf(file);
    setError(problem);
    // The picture before is not what is asked about any more.
    if (problem !== undefined) onPicture({ text: '' }, false);
    else onPicture({ text: await base64Of(file), fileName: file.name }, true);
  };
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const [file] = event.clipboardData?.files ?? [];
      if (file) void take(file);
    };
    addEventListener('paste', paste);
    return () => removeEventListener('paste', paste);
  });
  return (
    <>
      <label
        class={`drop${isOver ? ' over' : ''}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          void take(event.dataTransfer?.files[0]);
        }}
      >
        {text !== '' && <img src={`data:image/png;base64,${text}`} alt={`The picture ${fileName}`} />}
        <span>{text === '' ? 'Drop, paste or choose a picture' : fileName}</span>
        <span class="quiet">JPEG, PNG, WebP, BMP or GIF</span>
        <input
          type="file"
          accept={TYPES.join(',')}
          onChange={(event) => {
            void take(event.currentTarget.files?.[0]);
            // The same file may be chosen again.
            event.currentTarget.value = '';
          }}
        />
      </label>
      {error !== undefined && text === '' && <Problem text={error} />}
    </>
  );
}

function problemOf({ name, type, size }: File): string | undefined {
  if (!TYPES.includes(type)) return `${name} is not a JPEG, PNG, WebP, BMP or GIF: convert it first.`;
  if (size <= MOST_BYTES) return undefined;
  return `${name} has ${(size / 1e6).toFixed(1)} MB; a request takes pictures up to ${MOST_BYTES / 1e6} MB: make it smaller.`;
}

async function base64Of(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = '';
  // A call takes some ten thousand arguments.
  for (let i = 0; i < bytes.length; i += 8_192) text += String.fromCharCode(...bytes.subarray(i, i + 8_192));
  return btoa(text);
}
