/** A square to draw a picture on. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Choice } from '../ui.tsx';
import type { Given } from './request.ts';

const SIZE = 224;
const PEN = 22;
export const DRAWING = 'drawing.png';
const INKS = ['White on black', 'Black on white'] as const;
type Ink = (typeof INKS)[number];

export function Drawing({ onPicture }: { onPicture: (given: Given, runsNow: boolean) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDown = useRef(false);
  const [ink, setInk] = useState<Ink>('White on black');
  /** The drawing as a file, which the lines of a program name. */
  const [file, setFile] = useState<string>();
  useEffect(() => clear(canvas.current, ink), [ink]);
  const draw = (event: PointerEvent, begins: boolean) => {
    if (!canvas.current || (!begins && !isDown.current)) return;
    isDown.current = true;
    if (begins) canvas.current.setPointerCapture(event.pointerId);
    stroke(canvas.current, ink, event, begins);
  };
  const end = () => {
    if (!isDown.current) return;
    isDown.current = false;
    const url = canvas.current?.toDataURL('image/png') ?? '';
    setFile(url);
    onPicture({ text: url.replace(/^data:[^,]*,/, ''), fileName: DRAWING }, true);
  };
  const erase = (next: Ink) => {
    clear(canvas.current, next);
    setInk(next);
    setFile(undefined);
    onPicture({ text: '' }, false);
  };
  return (
    <div class="drawing">
      <canvas
        ref={canvas}
        width={SIZE}
        height={SIZE}
        role="img"
        aria-label="A square to draw on with a pointer; with a keyboard, choose a file"
        onPointerDown={(event) => draw(event, true)}
        onPointerMove={(event) => draw(event, false)}
        onPointerUp={end}
        onPointerCancel={end}
      />
      <div class="stack">
        <Choice label="Ink" options={INKS} value={ink} onChange={erase} />
        <button type="button" onClick={() => erase(ink)}>
          Clear
        </button>
        <p class="quiet">Draw large: the square becomes the picture. Each stroke asks again.</p>
        {file !== undefined && (
          <a href={file} download={DRAWING}>
            Save {DRAWING}
          </a>
        )}
      </div>
    </div>
  );
}

/** A 3 in white on black: something to see in every picture, and what a reader of digits knows. */
export function drawnPicture(): string {
  const canvas = Object.assign(document.createElement('canvas'), { width: SIZE, height: SIZE });
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.fillRect(0, 0, SIZE, SIZE);
  Object.assign(context, { strokeStyle: '#fff', lineWidth: 24, lineCap: 'round' });
  context.beginPath();
  context.arc(104, 76, 42, -2.6, Math.PI / 2);
  context.arc(104, 156, 42, -Math.PI / 2, 2.6);
  context.stroke();
  return canvas.toDataURL('image/png').replace(/^data:[^,]*,/, '');
}

function clear(canvas: HTMLCanvasElement | null, ink: Ink): void {
  const context = canvas?.getContext('2d');
  if (!context) return;
  context.fillStyle = ink === 'White on black' ? '#000' : '#fff';
  context.fillRect(0, 0, SIZE, SIZE);
}

function stroke(canvas: HTMLCanvasElement, ink: Ink, event: PointerEvent, begins: boolean): void {
  const context = canvas.getContext('2d');
  if (!context) return;
  const box = canvas.getBoundingClientRect();
  const x = ((event.clientX - box.left) * SIZE) / box.width;
  const y = ((event.clientY - box.top) * SIZE) / box.height;
  if (begins) {
    context.beginPath();
    context.moveTo(x, y);
  }
  context.strokeStyle = ink === 'White on black' ? '#fff' : '#000';
  Object.assign(context, { lineWidth: PEN, lineCap: 'round', lineJoin: 'round' });
  context.lineTo(x, y);
  context.stroke();
}
