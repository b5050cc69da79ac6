"""Data types of the cascade (Figure 1 of the paper).

Times are absolute seconds from the start of the stream. Audio is mono float32 at 16 kHz.
Token positions are counted from the first token of the prompt.
"""

# ``X as X`` marks a name as exported; strict type checkers reject imports of other names.
from alignatt_agent.types.drafts import NO_CONTEXT as NO_CONTEXT
from alignatt_agent.types.drafts import AttentionRows as AttentionRows
from alignatt_agent.types.drafts import Decision as Decision
from alignatt_agent.types.drafts import Draft as Draft
from alignatt_agent.types.drafts import DraftContext as DraftContext
from alignatt_agent.types.drafts import FloatArray as FloatArray
from alignatt_agent.types.drafts import GatedDraft as GatedDraft
from alignatt_agent.types.drafts import Prompt as Prompt
from alignatt_agent.types.drafts import StopReason as StopReason
from alignatt_agent.types.errors import AlignAttError as AlignAttError
from alignatt_agent.types.errors import EngineError as EngineError
from alignatt_agent.types.steps import Emission as Emission
from alignatt_agent.types.steps import SourceSpan as SourceSpan
from alignatt_agent.types.steps import Step as Step
from alignatt_agent.types.words import SAMPLE_RATE as SAMPLE_RATE
from alignatt_agent.types.words import SourceView as SourceView
from alignatt_agent.types.words import SpeechUpdate as SpeechUpdate
from alignatt_agent.types.words import Transcript as Transcript
from alignatt_agent.types.words import Word as Word
