"""The style sheet of a report: light and dark by the reader's preference, one column, printable."""

from __future__ import annotations

from controller.reports.palette import variables

_LAYOUT = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink)}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
header{margin-bottom:24px}
h1{font-size:27px;line-height:1.2;letter-spacing:-.01em;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px}
h3{font-size:15px;margin:0;overflow-wrap:anywhere}
p{margin:0 0 8px;max-width:80ch;overflow-wrap:anywhere}
.subtitle{color:var(--muted);font-size:16px}
.facts{display:flex;flex-wrap:wrap;gap:2px 24px;margin:12px 0 0;font-size:13px}
.facts div{display:flex;gap:6px;min-width:0}
.facts dt{color:var(--muted)}
.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(158px,1fr));gap:12px}
.tiles{list-style:none;padding:0;margin:0 0 12px}
.tiles li{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:12px 14px;min-width:0}
.tiles .label{color:var(--muted);font-size:13px}
.tiles .value{font-size:22px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tiles .note{font-size:12.5px;margin:0}
figure,.frame{background:var(--card);border:1px solid var(--rule);border-radius:8px;margin:0 0 12px}
figure{padding:12px 14px 6px;break-inside:avoid}
figcaption{display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 18px;margin-bottom:2px}
.unit{color:var(--muted);font-weight:400;font-size:13px}
.key{display:flex;flex-wrap:wrap;gap:2px 16px;margin:0;font-size:12.5px;color:var(--muted)}
.chip{display:inline-flex;align-items:center;gap:6px}
.chip svg{width:22px;height:12px;flex:none}
.plot{overflow-x:auto}
.plot svg{display:block;width:100%;min-width:680px;height:auto;font-size:12px;font-variant-numeric:tabular-nums}
.note{color:var(--muted);font-size:13px}
figure .note{margin:0 0 6px}
svg text{fill:var(--ink)}
svg .tick{fill:var(--muted)}
.end{text-anchor:end}
.mid{text-anchor:middle}
.grid{stroke:var(--grid)}
.axis{stroke:var(--muted)}
.line{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}
.area{fill-opacity:.13}
.value{font-weight:600}
.target{stroke:var(--ink);stroke-dasharray:5 4;stroke-opacity:.6}
.halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .targetlabel{fill:var(--muted)}
.band.neutral{fill:var(--muted);fill-opacity:.18}
.band.surplus{fill:var(--surplus);fill-opacity:.22}
.band.shortage{fill:url(#hatch)}
#hatch rect{fill:var(--shortage);fill-opacity:.22}
#hatch line{stroke:var(--shortage);stroke-width:2.4;stroke-opacity:.75}
.mark{stroke:var(--muted);stroke-dasharray:2 3}
.marklabel{font-size:11.5px}
svg .marklabel{fill:var(--muted)}
.span{fill:var(--muted);fill-opacity:.1}
.event.alert .mark,.event.shortage .mark{stroke:var(--alert)}
svg .event.alert .marklabel,svg .event.shortage .marklabel{fill:var(--alert)}
.event.alert .span,.event.shortage .span{fill:var(--alert)}
.strips rect{fill:transparent}
.strips rect:hover{fill:var(--hover)}
section{margin:0 0 12px}
.frame{overflow:auto}
.frame.long{max-height:640px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;font-weight:600;font-size:15px;padding:12px 14px 6px}
th,td{text-align:left;vertical-align:top;padding:5px 14px;border-bottom:1px solid var(--grid);overflow-wrap:break-word}
th{color:var(--muted);font-weight:500;border-bottom-color:var(--rule);background:var(--card);position:sticky;top:0}
tbody tr:last-child td{border-bottom:0}
tbody tr:hover td{background:var(--hover)}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.unknown{color:var(--muted)}
.notes dt{font-weight:600;margin-top:10px}
.notes dd{margin:0}
.defs{position:absolute;width:0;height:0}
@media print{body{font-size:12px;background:none}main{max-width:none;padding:0}.plot svg{min-width:0}
.frame,.frame.long{max-height:none;overflow:visible}table{font-size:10.5px}th,td{padding:3px 6px}
th{position:static}tr{break-inside:avoid}figure,.frame,.tiles li{border-color:#bbb}}
"""


def stylesheet() -> str:
    """The whole sheet. Paper is always light."""
    light, dark = variables(dark=False), variables(dark=True)
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{_LAYOUT.strip()}"
    )
